#pragma once

#include <cstdint>
#include <optional>

#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Two makespans that differ by less are one sum, added up in two orders.
inline constexpr double kSumRounding = 1e-14;

/// What an exact solve is asked for.
struct ExactLimits {
  std::size_t bins_per_rank = 1;  ///< Loads are summed over so many bins in a row before the
                                  ///< largest is taken; min_items and cap stay per bin.
  double below = 0;               ///< Only plans with a smaller makespan are wanted; 0: any plan.
  std::int64_t nodes = 0;         ///< Branch-and-bound nodes of the ILP; enumeration, whose nodes
                                  ///< are cheap, gets a hundred times as many.
};

struct ExactAnswer {
  std::optional<Bins> bins;  ///< A plan below `below`, the best where `finished`.
  bool finished = false;     ///< Every other plan was ruled out: none is below that of `bins` (or
                             ///< `below`) by more than kSumRounding of it.
};

/// The makespan where loads are summed over `bins_per_rank` bins in a row.
double grouped_makespan(const Partition& problem, std::size_t bins_per_rank, const Bins& bins);

/// Enumeration; where its nodes do not suffice, the assignment ILP. Deterministic: both stop by
/// counts, never by time.
ExactAnswer solve_exactly(const Partition& problem, const ExactLimits& limits);

}  // namespace isocost
