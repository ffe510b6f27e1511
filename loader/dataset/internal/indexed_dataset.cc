#include "loader/dataset/internal/indexed_dataset.h"

#include <utility>

#include "loader/dataset/index/read_ahead_ranges.h"
#include "loader/dataset/stores/stored_objects.h"  // IWYU pragma: keep (the type of `objects`)
#include "loader/dataset/tokens/token_source.h"

namespace isocost {
namespace {

std::vector<ByteRange> ranges_of(const CatalogueSample& sample) {
  return read_ahead_ranges(sample.shard.view(), sample.number, sample.shard.tokens() != nullptr);
}

ShardFindings joined(const std::vector<DatasetSource>& sources) {
  std::vector<ShardFindings> findings;
  findings.reserve(sources.size());
  for (const DatasetSource& source : sources) findings.push_back(source.findings);
  return joined_findings(findings);
}

}  // namespace

IndexedDataset::IndexedDataset(Catalogue catalogue, std::vector<DatasetSource> sources,
                               StartFindings found, std::shared_ptr<const ObjectCache> cache)
    : catalogue_(std::move(catalogue)),
      sources_(std::move(sources)),
      found_(std::move(found)),
      findings_(joined(sources_)),
      cache_(std::move(cache)) {
  for (std::size_t i = 0; i < shards(); ++i) {
    const KnownShard& known = catalogue_.shards().known(i);
    const auto& objects = known.place.root->objects;
    if (!objects) continue;
    servers_.try_emplace(objects->server(), objects);
    if (known.place.file().is_compressed) continue;  // fetched whole
    samples_on_servers_ += usable_samples(i);
  }
}

SampleShape IndexedDataset::shape(SampleId id) const {
  const auto sample = catalogue_.sample(id);
  return sample ? sample->parts().shape() : SampleShape{};
}

std::string IndexedDataset::key(SampleId id) const {
  const auto sample = catalogue_.sample(id);
  return sample ? std::string(sample->key()) : std::string();
}

std::string_view IndexedDataset::shard(SampleId id) const {
  return catalogue_.shards().name(catalogue_.shard_of(id));
}

std::string IndexedDataset::part_name(SampleId id, std::size_t part) const {
  const auto sample = catalogue_.sample(id);
  return sample ? std::string(sample->parts().name(part)) : std::string();
}

Result<std::unique_ptr<ByteSource>> IndexedDataset::open_part(SampleId id, std::size_t part,
                                                              const BytesAhead& ahead) const {
  ISOCOST_ASSIGN(const CatalogueSample sample, catalogue_.sample(id));
  const auto indexed = sample.parts().indexed(part);
  if (!indexed) return open_tokens(sample.shard.tokens(), sample.number, sample.cut);
  return files_.open_part(sample.shard, sample.number, sample.shard.view().part_place(*indexed),
                          ahead);
}

Result<std::unique_ptr<ByteSource>> IndexedDataset::open_json(SampleId id,
                                                              const BytesAhead& ahead) const {
  ISOCOST_ASSIGN(const CatalogueSample sample, catalogue_.sample(id));
  const PartPlace place = sample.shard.view().json_place(sample.number);
  if (place.bytes == 0) return std::unique_ptr<ByteSource>();
  return files_.open_part(sample.shard, sample.number, place, ahead);
}

Status IndexedDataset::check_index(SampleId id) const {
  ISOCOST_ASSIGN(const CatalogueSample sample, catalogue_.sample(id));
  return sample.shard.check_mapped_files();
}

BytesAhead IndexedDataset::read_ahead(SampleId id, const std::stop_token& stop) const {
  const auto sample = catalogue_.sample(id);
  if (!sample) return nullptr;
  ShardFiles::read_ahead_media(sample->shard,
                               read_ahead_files(sample->shard.view(), sample->number));
  const std::vector<ByteRange> ranges = ranges_of(*sample);
  // A compressed shard on a server is inflated within the stop.
  const StoredFile file = sample->shard.place().file();
  const bool is_inflated = file.objects && file.is_compressed;
  if (ranges.empty() && !is_inflated) return nullptr;
  return files_.read_ahead(sample->shard, ranges, stop);
}

std::vector<std::pair<std::string, StoreCounts>> IndexedDataset::server_counts() const {
  std::vector<std::pair<std::string, StoreCounts>> counts;
  counts.reserve(servers_.size());
  for (const auto& [name, objects] : servers_) counts.emplace_back(name, objects->counts());
  return counts;
}

std::int64_t IndexedDataset::read_ahead_bytes(SampleId id) const {
  const auto sample = catalogue_.sample(id);
  if (!sample) return 0;
  std::int64_t bytes = 0;
  for (const ByteRange& range : ranges_of(*sample)) bytes += range.end - range.begin;
  for (const FileAhead& file : read_ahead_files(sample->shard.view(), sample->number)) {
    bytes += file.bytes;
  }
  return bytes;
}

void IndexedDataset::hold_shard(std::size_t i, const std::stop_token& stop) const {
  const ShardPlace& place = catalogue_.shards().known(i).place;
  if (place.root->objects) static_cast<void>(place.root->objects->hold(place.name, stop));
}

const std::string& IndexedDataset::shard_name(std::size_t i) const {
  return catalogue_.shards().name(i);
}

ShardFacts IndexedDataset::shard_facts(std::size_t i) const {
  const ShardRow& row = catalogue_.shards().known(i).row;
  const auto shard = catalogue_.shards().open(i);
  ShardFacts facts =
      shard ? isocost::shard_facts(**shard) : ShardFacts{.usable = row.samples, .bad = row.bad};
  facts.first = catalogue_.first(i);
  const std::uint64_t usable = usable_samples(i);
  facts.bad += facts.usable - usable;
  facts.usable = usable;
  return facts;
}

ShardTokenFacts IndexedDataset::shard_tokens(std::size_t i,
                                             const TokenizerIdentity* tokenizer) const {
  const auto shard = catalogue_.shards().open(i);
  if (shard) return shard_token_facts(**shard, tokenizer);
  return {.are_there = true, .problem = "cannot be compared: " + shard.error().message()};
}

Result<bool> IndexedDataset::is_as_last_checked(std::size_t i, const std::stop_token& stop) const {
  ISOCOST_ASSIGN(const auto shard, catalogue_.shards().open(i));
  return files_.is_as_last_checked(*shard, stop);
}

std::size_t IndexedDataset::indexes_not_kept() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < shards(); ++i) {
    count += catalogue_.shards().known(i).row.has_index_file() ? 0U : 1U;
  }
  return count;
}

}  // namespace isocost
