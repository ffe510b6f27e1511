#pragma once

#include <optional>

#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Returns bins by longest processing time first for vectors: takes items in descending order of
/// their largest dimension and puts each into the bin whose largest load stays smallest. Returns
/// nothing if an item fits no bin under the caps. O(items·bins).
std::optional<Bins> lpt_bins(const Partition& problem);

/// Returns bins by first-fit-decreasing over the largest share of a cap, which packs more tightly
/// and ignores costs. Returns nothing if an item fits no bin, if there are no caps, or if min_items
/// is above one.
std::optional<Bins> first_fit_bins(const Partition& problem);

/// Packs by sizes alone with LPT and the local search, for caps that leave little room. Returns
/// nothing if no packing is found.
std::optional<Bins> packed_bins(const Partition& problem);

/// Tries lpt_bins, then first_fit_bins, then packed_bins, until one finds room.
std::optional<Bins> construct_bins(const Partition& problem);

}  // namespace isocost
