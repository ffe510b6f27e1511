#include "loader/dataset/internal/indexed_dataset.h"

#include <algorithm>
#include <utility>

#include "loader/dataset/index/read_ahead_ranges.h"
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
                               std::vector<BadSample> bad, std::vector<Remark> remarks)
    : catalogue_(std::move(catalogue)),
      sources_(std::move(sources)),
      bad_(std::move(bad)),
      findings_(joined(sources_)),
      remarks_(std::move(remarks)) {}

SampleShape IndexedDataset::shape(SampleId id) const {
  return catalogue_.sample(id).parts().shape();
}

std::string_view IndexedDataset::key(SampleId id) const { return catalogue_.sample(id).key(); }

std::string_view IndexedDataset::shard(SampleId id) const {
  return catalogue_.sample(id).shard.name();
}

std::string_view IndexedDataset::part_name(SampleId id, std::size_t part) const {
  return catalogue_.sample(id).parts().name(part);
}

Result<std::unique_ptr<ByteSource>> IndexedDataset::open_part(SampleId id, std::size_t part) const {
  const CatalogueSample sample = catalogue_.sample(id);
  const auto indexed = sample.parts().indexed(part);
  if (!indexed) return open_tokens(sample.shard.tokens(), sample.number, sample.cut);
  return files_.open_part(sample.shard, sample.number, sample.shard.view().part_place(*indexed));
}

Result<std::unique_ptr<ByteSource>> IndexedDataset::open_json(SampleId id) const {
  const CatalogueSample sample = catalogue_.sample(id);
  const PartPlace place = sample.shard.view().json_place(sample.number);
  if (place.bytes == 0) return std::unique_ptr<ByteSource>();
  return files_.open_part(sample.shard, sample.number, place);
}

Status IndexedDataset::check_index(SampleId id) const {
  return catalogue_.sample(id).shard.check_mapped_files();
}

void IndexedDataset::read_ahead(SampleId id) const {
  const CatalogueSample sample = catalogue_.sample(id);
  const std::vector<ByteRange> ranges = ranges_of(sample);
  if (!ranges.empty()) files_.read_ahead(sample.shard, ranges);
  ShardFiles::read_ahead_media(sample.shard, read_ahead_files(sample.shard.view(), sample.number));
}

std::int64_t IndexedDataset::read_ahead_bytes(SampleId id) const {
  std::int64_t bytes = 0;
  const CatalogueSample sample = catalogue_.sample(id);
  for (const ByteRange& range : ranges_of(sample)) bytes += range.end - range.begin;
  for (const FileAhead& file : read_ahead_files(sample.shard.view(), sample.number)) {
    bytes += file.bytes;
  }
  return bytes;
}

const std::string& IndexedDataset::shard_name(std::size_t i) const {
  return catalogue_.shards()[i].name();
}

ShardFacts IndexedDataset::shard_facts(std::size_t i) const {
  ShardFacts facts = isocost::shard_facts(catalogue_.shards()[i]);
  facts.first = catalogue_.first(i);
  const std::uint64_t usable = catalogue_.first(i + 1) - facts.first;
  facts.bad += facts.usable - usable;
  facts.usable = usable;
  return facts;
}

ShardTokenFacts IndexedDataset::shard_tokens(std::size_t i,
                                             const TokenizerIdentity* tokenizer) const {
  return shard_token_facts(catalogue_.shards()[i], tokenizer);
}

Result<bool> IndexedDataset::is_as_last_checked(std::size_t i, const std::stop_token& stop) const {
  return files_.is_as_last_checked(catalogue_.shards()[i], stop);
}

std::size_t IndexedDataset::indexes_not_kept() const {
  const auto count = std::ranges::count_if(
      catalogue_.shards(), [](const Shard& shard) { return !shard.index().kept(); });
  return static_cast<std::size_t>(count);
}

}  // namespace isocost
