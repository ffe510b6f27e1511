#pragma once

#include <optional>

#include "balancer/partition/internal/partition.h"

namespace isocost {

/// LPT for vectors: items in descending order of their largest dimension, each into the bin whose
/// largest load it leaves smallest. Nothing where an item finds no bin under the cap.
/// O(items·bins).
std::optional<Bins> greedy_bins(const Partition& problem);

/// First-fit-decreasing by bytes, which packs tighter; costs are left to the local search. Nothing
/// where it does not fit either, or min_items is above one.
std::optional<Bins> first_fit_bins(const Partition& problem);

/// Packs by bytes alone with all that the search can do: for caps that leave little room. Nothing
/// where that fails, too.
std::optional<Bins> packed_bins(const Partition& problem);

/// Greedy; first fit where greedy finds no room; packed where that finds none.
std::optional<Bins> construct_bins(const Partition& problem);

}  // namespace isocost
