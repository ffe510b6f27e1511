#pragma once

#include <cstdint>

#include "balancer/partition/internal/bin_states.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Local search for targets that leave almost no slack, such as tile bounds, where the largest load
/// alone does not show progress. Minimises the sum of squares of the load above `target` over all
/// bins and dimensions by redistributing pairs. If no pair lowers the sum, one bin passes its
/// excess to another and the descent continues from there; the step is undone if it leads nowhere.
/// `work` is the number of pairs evaluated. The final makespan is at most the initial one.
void even_out(const Partition& problem, double target, std::int64_t work, BinStates& bins);

}  // namespace isocost
