#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/partition/balance.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Returns the greatest of the inexpensive bounds (mean, pigeonhole, granularity, caps) over all
/// dimensions. No assignment has a smaller makespan.
LowerBound partition_bound(const Partition& problem);

/// Returns the pigeonhole bound on weighted sums of the dimensions: a bin's largest dimension is at
/// least any weighted mean of its dimensions. Detects items that are large in different dimensions.
/// Costs one sort per set of weights.
double trade_off_bound(const Partition& problem);

/// Returns a bound for items above some size. Let k+1 be the most of them that fit into one bin
/// below the bound. If there are more than k·bins of them, each further one means one more bin that
/// holds k+1. The rest of such a bin can only hold small items; if there are too few of these, the
/// other bins hold more than the mean. For bins that share one slowdown; evaluated in each
/// dimension.
double crowd_bound(const Partition& problem);

/// Returns a bound for bins of different slowdowns under caps, else 0. The fastest bins hold at
/// most their caps of a resource; the j slowest bins hold the rest of it, and therefore at least
/// the work of the items with the least work per unit. Evaluated for each resource, dimension and
/// set of weights.
double capped_slowdown_bound(const Partition& problem);

/// Returns a bound for items larger than half a cap, no two of which share a bin. The j largest
/// have a bin each, and items that do not fit beside the smallest of these share the other bins.
/// Infinite if such items exist but no other bins. The greatest over all resources.
double cap_bound(const Partition& problem);

/// Returns the mean: some bin holds at least that much.
double mean_bound(double sum, std::size_t bins);

/// Returns the larger of two bounds: some bin holds the largest item, and, by the pigeonhole
/// principle, some bin holds k+1 of the k·bins+1 largest items, for every k. That bin also holds
/// min_items items; those beyond the k+1 weigh at least as much as the smallest items. `descending`
/// is sorted.
LowerBound pigeonhole_bound(const std::vector<double>& descending, std::size_t bins,
                            std::size_t min_items);

/// Loads that are whole multiples of a tile.
struct Tiles {
  double tile = 0;         ///< At most cost / count for each item.
  std::int64_t count = 0;  ///< Total over all items.
};
/// Returns the tile of which all loads are multiples, or nothing if there is none, or if it is so
/// small that the bound would gain less than 0.01 %.
std::optional<Tiles> find_tiles(const std::vector<double>& descending, std::size_t bins);

/// Returns the load of ceil(tiles / bins) tiles, which some bin holds, if loads are whole multiples
/// of a tile. Else returns 0.
double granularity_bound(const std::vector<double>& descending, std::size_t bins);

}  // namespace isocost
