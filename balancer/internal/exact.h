#pragma once

#include <optional>

#include "balancer/internal/partition.h"

namespace isocost {

/// What an exact solve is asked for.
struct ExactLimits {
  std::size_t bins_per_rank = 1;  ///< Loads are summed over so many bins in a row before the
                                  ///< largest is taken; min_items and cap stay per bin.
  double below = 0;               ///< Only plans with a smaller makespan are wanted; 0: any plan.
  std::int64_t nodes = 0;         ///< Branch-and-bound nodes.
};

struct ExactAnswer {
  std::optional<Bins> bins;  ///< A plan below `below`, the best where `finished`.
  bool finished = false;     ///< The tree was searched to its end (to the solver's 1e-7).
};

/// Branch and bound over the assignment ILP in GLPK. Deterministic: it stops by nodes, never by
/// time. GLPK's terminal output is off.
ExactAnswer solve_exactly(const Partition& problem, const ExactLimits& limits);

}  // namespace isocost
