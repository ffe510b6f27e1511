#pragma once

#include <optional>

#include "balancer/partition/balance.h"

namespace isocost {

/// Returns the smallest objective over all assignments by enumeration, or nothing if no assignment
/// keeps counts and cap. For a few items only.
std::optional<double> brute_force(const BalanceProblem& problem);

/// Returns the objective of given bins, computed independently of the balancer.
double objective(const BalanceProblem& problem,
                 const std::vector<std::vector<std::uint32_t>>& bins);

/// Returns which rule the result violates (every item once, no empty bin, cap kept), or an empty
/// string if it violates none.
std::string plan_fault(const BalanceProblem& problem, const BalanceResult& result);

}  // namespace isocost
