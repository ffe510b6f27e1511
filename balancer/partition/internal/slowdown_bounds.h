#pragma once

#include <span>
#include <vector>

namespace isocost {

/// The bounds of bounds.h for bins of unlike slowdowns (a bin's load is multiplied by its
/// slowdown). Each asks for the least makespan T at which the bins have room, a bin of slowdown s
/// for T / s.

/// Some bin holds its share of the sum: T >= sum / Σ 1/s.
double slowdown_mean_bound(const std::vector<double>& descending,
                           std::span<const double> slowdowns);

/// The j largest items lie in at most j bins, at best in the j fastest.
double slowdown_largest_item_bound(const std::vector<double>& descending,
                                   std::span<const double> slowdowns);

/// The j largest items need room: a bin has room for as many of them as the smallest of these, one
/// by one, fit into T / s, together with the smallest items overall that min_items asks for
/// besides. Tried at j = k·bins+1, where like bins are worst off.
double slowdown_pigeonhole_bound(const std::vector<double>& descending,
                                 std::span<const double> slowdowns, std::size_t min_items);

/// Tiles need room: a bin has room for floor(T / (s·tile)).
double slowdown_granularity_bound(const std::vector<double>& descending,
                                  std::span<const double> slowdowns);

}  // namespace isocost
