#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "balancer/partition/balance.h"

namespace isocost {

inline constexpr std::size_t kMaxLoadDimensions = 8;
inline constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max();
/// A bin's room is overestimated by this fraction, so that rounding neither cuts off a plan nor
/// makes a bound too high.
inline constexpr double kRoomSlack = 1e-12;

/// Amount that some items hold of each resource together. Entries beyond the problem's resources
/// are 0.
using Sizes = std::array<std::int64_t, kMaxResources>;

/// bins[b] lists items in ascending order.
using Bins = std::vector<std::vector<std::uint32_t>>;

/// The core problem: items with vector costs are divided into bins so that the largest load of any
/// bin in any dimension is small. Bins differ only in their slowdowns. A view: the arrays belong to
/// the caller and must outlive it. Preconditions: costs are finite and >= 0, no item exceeds a
/// cap, items >= bins * min_items.
struct Partition {
  std::size_t dimensions = 1;
  std::size_t bins = 1;
  std::size_t min_items = 1;  ///< The fewest items that each bin must hold.
  std::span<const double> costs = {};
  std::size_t resources = 0;                 ///< R, the number of resources; 0: no caps.
  std::span<const std::int64_t> sizes = {};  ///< [items × R] row-major.
  Sizes caps{};                              ///< Most that a bin may hold of each resource.
  std::span<const double> slowdowns = {};    ///< [bins], the factor on a bin's load; empty: all 1.

  std::size_t items() const { return costs.size() / dimensions; }
  const double* cost(std::size_t item) const { return &costs[item * dimensions]; }
  double slowdown(std::size_t bin) const { return slowdowns.empty() ? 1 : slowdowns[bin]; }
  std::int64_t size(std::size_t item, std::size_t resource) const {
    return sizes[item * resources + resource];
  }
  void add(std::size_t item, Sizes& held) const {
    for (std::size_t r = 0; r < resources; ++r) held[r] += size(item, r);
  }
  void remove(std::size_t item, Sizes& held) const {
    for (std::size_t r = 0; r < resources; ++r) held[r] -= size(item, r);
  }
  /// Returns whether a bin that already holds `held` has room for the item.
  bool has_room(const Sizes& held, std::size_t item) const {
    for (std::size_t r = 0; r < resources; ++r) {
      if (size(item, r) > caps[r] - held[r]) return false;
    }
    return true;
  }
};

/// Lets each bin of `partition` hold `times` as much as a microbatch of the problem. The problem
/// must outlive it.
void add_caps(const BalanceProblem& problem, Partition& partition, std::int64_t times = 1);

/// Returns the largest load: costs are summed in ascending order of items and then multiplied by
/// the bin's slowdown. Every part of the balancer sums in this order, so equal plans have equal
/// makespans to the last bit.
double makespan_of(const Partition& problem, const Bins& bins);

/// Returns whether every item is in exactly one bin and item counts and the caps are kept.
bool is_feasible(const Partition& problem, const Bins& bins);

}  // namespace isocost
