#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace isocost {

inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max();

/// bins[b] lists items in ascending order.
using Bins = std::vector<std::vector<std::uint32_t>>;

/// The core problem: items with vector costs are divided into bins so that the largest load of any
/// bin in any dimension is small. Bins differ only in their slowdowns. A view: the arrays belong to
/// the caller and must outlive it. Preconditions: costs are finite and >= 0, no item exceeds the
/// cap, items >= bins * min_items.
struct Partition {
  std::size_t dimensions = 1;
  std::size_t bins = 1;
  std::size_t min_items = 1;  ///< The fewest items that each bin must hold.
  std::span<const double> costs = {};
  std::span<const std::int64_t> bytes = {};  ///< Empty: no cap.
  std::int64_t bytes_cap = kNoCap;
  std::span<const double> slowdowns = {};  ///< [bins], the factor on a bin's load; empty: all 1.

  std::size_t items() const { return costs.size() / dimensions; }
  const double* cost(std::size_t item) const { return &costs[item * dimensions]; }
  double slowdown(std::size_t bin) const { return slowdowns.empty() ? 1 : slowdowns[bin]; }
  std::int64_t bytes_of(std::size_t item) const { return bytes.empty() ? 0 : bytes[item]; }
};

/// Returns the largest load: costs are summed in ascending order of items and then multiplied by
/// the bin's slowdown. Every part of the balancer sums in this order, so equal plans have equal
/// makespans to the last bit.
double makespan_of(const Partition& problem, const Bins& bins);

/// Returns whether every item is in exactly one bin and item counts and the cap are kept.
bool is_feasible(const Partition& problem, const Bins& bins);

}  // namespace isocost
