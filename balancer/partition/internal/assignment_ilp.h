#pragma once

#include "balancer/partition/internal/exact.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Branch and bound over the assignment ILP in GLPK. Its tolerances decide nothing: bytes and loads
/// are rounded down to whole fractions that are coarse beside them, which only ever allows more;
/// each answer is checked in the balancer's own numbers, what it breaks is ruled out by a row of
/// its own, and only where no answer is left is anything proved. GLPK's terminal output is off.
ExactAnswer solve_assignment_ilp(const Partition& problem, const ExactLimits& limits);

}  // namespace isocost
