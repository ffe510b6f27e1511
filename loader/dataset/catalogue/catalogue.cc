#include "loader/dataset/catalogue/catalogue.h"

#include <algorithm>
#include <utility>

#include "loader/dataset/catalogue/internal/dataset_fingerprint.h"

namespace isocost {
namespace {

// Adds the weighted samples of a shard, the first of which has the id `first`.
void add(WeightedSamples& all, const WeightedSamples& of_shard, SampleId first) {
  if (all.count == 0 && of_shard.count > 0) {
    all.first = first + of_shard.first;
    all.weight = of_shard.weight;
  }
  all.count += of_shard.count;
}

CatalogueShards held(std::vector<Shard> shards, std::vector<ShardSelection> selections) {
  std::vector<KnownShard> known;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    auto shard = std::make_shared<const Shard>(std::move(shards[s]));
    known.push_back({.place = shard->place(),
                     .source = std::make_shared<const SourceReading>(),
                     .row = row_of(*shard, selections[s]),
                     .held = shard});
  }
  return {std::make_unique<const OpenShards>(std::move(known)), std::move(selections)};
}

}  // namespace

Catalogue::Catalogue(CatalogueShards shards)
    : shards_(std::move(shards.shards)), selections_(std::move(shards.selections)), first_{0} {
  first_.reserve(selections_.size() + 1);
  for (std::size_t s = 0; s < selections_.size(); ++s) {
    add(weighted_, shards_->known(s).row.weighted, first_.back());
    first_.push_back(first_.back() + selections_[s].size());
  }
  fingerprint_ = fingerprint(0, selections_.size());
}

Catalogue::Catalogue(std::vector<Shard> shards, std::vector<ShardSelection> selections)
    : Catalogue(held(std::move(shards), std::move(selections))) {}

std::uint64_t Catalogue::fingerprint(std::size_t begin, std::size_t end) const {
  DatasetFingerprint fingerprint;
  for (std::size_t s = begin; s < end; ++s) {
    fingerprint.add(shards_->known(s).place.name, shards_->known(s).row);
  }
  return fingerprint.value();
}

std::size_t Catalogue::shard_of(SampleId id) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), id);
  return static_cast<std::size_t>(after - first_.begin()) - 1;
}

Result<CatalogueSample> Catalogue::sample(SampleId id) const {
  const std::size_t s = shard_of(id);
  const std::uint64_t number = selections_[s].sample(id - first_[s]);
  ISOCOST_ASSIGN(std::shared_ptr<const Shard> open, shards_->open(s));
  const Shard& shard = *open;
  return CatalogueSample{std::move(open), shard, number, selections_[s].cut_of(number)};
}

}  // namespace isocost
