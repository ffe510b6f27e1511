#include "loader/dataset/catalogue/catalogue.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "loader/dataset/catalogue/internal/dataset_fingerprint.h"

namespace isocost {
namespace {

// Adds a shard's usable samples, the first of which has the id `first`.
void add(WeightedSamples& all, const Shard& shard, const ShardSelection& selection,
         SampleId first) {
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    const std::uint64_t number = selection.sample(i);
    const float weight = shard.view().weight(number);
    if (weight == 0 ||
        (weight == 1 && !shard.parts(number, selection.cut_of(number)).has_weighted_turns())) {
      continue;
    }
    if (all.count++ == 0) {
      all.first = first + i;
      all.weight = weight;
    }
  }
}

}  // namespace

Catalogue::Catalogue(std::vector<Shard> shards, std::vector<ShardSelection> selections)
    : shards_(std::move(shards)),
      selections_(std::move(selections)),
      first_{0},
      fingerprint_(dataset_fingerprint(shards_, selections_)) {
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    add(weighted_, shards_[s], selections_[s], first_.back());
    first_.push_back(first_.back() + selections_[s].size());
  }
}

std::uint64_t Catalogue::fingerprint(std::size_t begin, std::size_t end) const {
  if (begin == 0 && end == shards_.size()) return fingerprint_;
  return dataset_fingerprint(std::span(shards_).subspan(begin, end - begin),
                             std::span(selections_).subspan(begin, end - begin));
}

CatalogueSample Catalogue::sample(SampleId id) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), id);
  const auto s = static_cast<std::size_t>(after - first_.begin()) - 1;
  const std::uint64_t number = selections_[s].sample(id - first_[s]);
  return {shards_[s], number, selections_[s].cut_of(number)};
}

}  // namespace isocost
