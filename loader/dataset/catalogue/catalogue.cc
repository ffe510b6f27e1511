#include "loader/dataset/catalogue/catalogue.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "loader/dataset/catalogue/internal/dataset_fingerprint.h"

namespace isocost {

Catalogue::Catalogue(std::vector<Shard> shards, std::vector<ShardSelection> selections)
    : shards_(std::move(shards)),
      selections_(std::move(selections)),
      first_{0},
      fingerprint_(dataset_fingerprint(shards_, selections_)) {
  for (const ShardSelection& selection : selections_) {
    first_.push_back(first_.back() + selection.size());
  }
}

CatalogueSample Catalogue::sample(SampleId id) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), id);
  const auto s = static_cast<std::size_t>(after - first_.begin()) - 1;
  const std::uint64_t number = selections_[s].sample(id - first_[s]);
  return {shards_[s], number, selections_[s].cut_of(number)};
}

}  // namespace isocost
