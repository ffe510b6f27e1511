#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/internal/partition.h"

namespace isocost {

/// The greatest of the bounds below over all dimensions: no assignment has a smaller makespan.
double partition_bound(const Partition& problem);

/// Some bin holds at least the mean.
double mean_bound(double sum, std::size_t bins);

/// Some bin holds the largest item, and, by the pigeonhole principle, some bin holds k+1 of the
/// k·bins+1 largest items, for every k. It also holds min_items items, of which those beyond the
/// k+1 are at least the smallest there are. `descending` is sorted.
double pigeonhole_bound(const std::vector<double>& descending, std::size_t bins,
                        std::size_t min_items);

/// Loads that are whole multiples of a tile.
struct Tiles {
  double tile = 0;         ///< At most cost / count for each item.
  std::int64_t count = 0;  ///< Of all items.
};
/// The tile of which all loads are multiples; nothing where there is none worth knowing.
std::optional<Tiles> find_tiles(const std::vector<double>& descending, std::size_t bins);

/// Where loads are whole multiples of a tile, some bin holds ceil(tiles / bins) tiles.
double granularity_bound(const std::vector<double>& descending, std::size_t bins);

}  // namespace isocost
