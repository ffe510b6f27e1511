#pragma once

#include <cstdint>
#include <optional>

#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Two makespans that differ by less than this fraction may be one sum, added in two orders.
inline constexpr double kSumRounding = 1e-14;

struct ExactLimits {
  /// Loads are summed over groups of this many consecutive bins before the largest is taken.
  /// min_items and the cap apply to each bin.
  std::size_t bins_per_rank = 1;
  double below = 0;  ///< Only plans with a smaller makespan are wanted; 0: any plan.
  /// Branch-and-bound nodes of the ILP. Enumeration, whose nodes are inexpensive, may spend 100
  /// times as many.
  std::int64_t nodes = 0;
};

struct ExactAnswer {
  std::optional<Bins> bins;  ///< A plan below `below`; the best one if `finished`.
  /// Whether search ruled out every other plan: none is below that of `bins` (or below `below`) by
  /// more than kSumRounding of it.
  bool finished = false;
};

/// Returns the makespan where loads are summed over groups of `bins_per_rank` consecutive bins.
double grouped_makespan(const Partition& problem, std::size_t bins_per_rank, const Bins& bins);

/// Enumerates the plans; if the nodes do not suffice, solves the assignment ILP, in builds with
/// GLPK. Deterministic: both stop by counts, never by time.
ExactAnswer solve_exactly(const Partition& problem, const ExactLimits& limits);

}  // namespace isocost
