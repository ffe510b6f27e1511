#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/partition/balance.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// The greatest of the bounds below over all dimensions, and that of memory: no assignment has a
/// smaller makespan.
LowerBound partition_bound(const Partition& problem);

/// A bin's largest dimension is at least any weighted mean of its dimensions: the pigeonhole bound
/// on weighted sums, which sees items that are large in unlike dimensions. Costs a sort for each
/// weighing.
double trade_off_bound(const Partition& problem);

/// Of the largest items, as many as lie above some size, k+1 at most fit into a bin below the
/// bound: beyond k·bins of them, each is one bin more that holds k+1. What is left there fits only
/// what is small enough, and where there is too little of that, the other bins hold the more. For
/// bins of one slowdown, dimension by dimension.
double crowd_bound(const Partition& problem);

/// Under a cap the fastest bins hold no more than their caps' bytes: the j slowest hold the rest,
/// and no less work than the items with least work a byte have. For bins of unlike slowdown with a
/// cap, else 0; for each dimension and each weighing.
double capped_slowdown_bound(const Partition& problem);

/// Items of more than half the cap lie alone among their like. The j largest of them have a bin
/// each, and what does not fit beside the smallest of these shares the others. Infinite where there
/// are no others.
double memory_bound(const Partition& problem);

/// Some bin holds at least the mean.
double mean_bound(double sum, std::size_t bins);

/// Some bin holds the largest item, and, by the pigeonhole principle, some bin holds k+1 of the
/// k·bins+1 largest items, for every k. It also holds min_items items, of which those beyond the
/// k+1 are at least the smallest there are. `descending` is sorted.
LowerBound pigeonhole_bound(const std::vector<double>& descending, std::size_t bins,
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
