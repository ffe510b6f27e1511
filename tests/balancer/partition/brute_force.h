#pragma once

#include <optional>

#include "balancer/partition/balance.h"

namespace isocost {

/// The smallest objective over all assignments, by trying every one; nothing where no assignment
/// keeps counts and cap. For a handful of items.
std::optional<double> brute_force(const BalanceProblem& problem);

/// The objective of given bins, computed apart from the balancer.
double objective(const BalanceProblem& problem,
                 const std::vector<std::vector<std::uint32_t>>& bins);

/// Empty where the result is a plan: every item once, no bin empty, cap kept; else what is wrong.
std::string plan_fault(const BalanceProblem& problem, const BalanceResult& result);

}  // namespace isocost
