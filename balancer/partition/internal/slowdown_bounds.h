#pragma once

#include <span>
#include <vector>

namespace isocost {

/// Bounds of bounds.h for bins with different slowdowns (a bin's load is multiplied by its
/// slowdown). Each returns the smallest makespan T at which the bins have enough room; a bin of
/// slowdown s has room for T / s.

/// Returns the T at which the bins have room for the sum: T >= sum / Σ 1/s.
double slowdown_mean_bound(const std::vector<double>& descending,
                           std::span<const double> slowdowns);

/// Returns the T at which the j largest items fit. They are in at most j bins, at best the j
/// fastest.
double slowdown_largest_item_bound(const std::vector<double>& descending,
                                   std::span<const double> slowdowns);

/// Returns the T at which the bins have room for the j largest items. A bin holds at most as many
/// of them as the smallest of them fit into T / s, together with the smallest items overall that
/// complete min_items. Evaluated at j = k·bins+1, where the bound is strongest for equal bins.
double slowdown_pigeonhole_bound(const std::vector<double>& descending,
                                 std::span<const double> slowdowns, std::size_t min_items);

/// Returns the T at which the bins have room for all tiles; a bin has room for floor(T / (s·tile)).
double slowdown_granularity_bound(const std::vector<double>& descending,
                                  std::span<const double> slowdowns);

}  // namespace isocost
