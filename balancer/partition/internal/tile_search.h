#pragma once

#include <cstdint>

#include "balancer/partition/internal/bin_states.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

struct EvenOutLimits {
  double target = 0;      ///< The load that no bin should exceed.
  std::int64_t work = 0;  ///< Budget: pairs of bins evaluated.
  std::int64_t stall_window =
      0;  ///< Stops if this many pairs lower the sum by less than a quarter.
};

/// Searches for targets that leave almost no slack, such as tile bounds, where the largest load
/// alone does not show progress. Minimises the sum of squares of the load above the target over all
/// bins and dimensions by redistributing pairs. If no pair lowers the sum, one bin passes its
/// excess to another and the descent continues from there; the step is undone if it leads nowhere.
/// The final makespan is at most the initial one.
void even_out(const Partition& problem, const EvenOutLimits& limits, BinStates& bins);

}  // namespace isocost
