#pragma once

#include "balancer/partition/internal/exact.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Solves the assignment ILP by branch and bound in GLPK. The result does not depend on GLPK's
/// tolerances: loads and sizes are rounded down to fractions that are coarse compared with them,
/// which can only admit more plans; each answer is checked in the balancer's own numbers, and a
/// cover row excludes the violated set of items; a proof requires that no answer remains. GLPK's
/// terminal output is off.
ExactAnswer solve_assignment_ilp(const Partition& problem, const ExactLimits& limits);

}  // namespace isocost
