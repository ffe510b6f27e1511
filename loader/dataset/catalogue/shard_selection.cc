#include "loader/dataset/catalogue/shard_selection.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace isocost {

ShardSelection::ShardSelection(std::uint64_t samples, std::vector<std::uint32_t> dropped, Cuts cuts)
    : samples_(samples), all_(dropped.empty()), cuts_(std::move(cuts)) {
  if (all_) return;
  std::sort(dropped.begin(), dropped.end());
  std::vector<std::uint32_t> every(samples);
  std::iota(every.begin(), every.end(), 0U);
  std::set_difference(every.begin(), every.end(), dropped.begin(), dropped.end(),
                      std::back_inserter(kept_));
}

const TurnCut* ShardSelection::cut_of(std::uint64_t sample) const {
  const auto found = cuts_.find(sample);
  return found == cuts_.end() ? nullptr : &found->second;
}

}  // namespace isocost
