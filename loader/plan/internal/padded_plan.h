#pragma once

#include <cstdint>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/plan/microbatch_limits.h"

namespace isocost {

/// Divides a step for a trainer that pads the LLM, at the price of what is run: each sequence of a
/// microbatch as long as the longest. Limits hold for padded units.
///
/// Two divisions are compared: that of balance(), which does not know padding, and one that groups
/// like lengths. The latter sorts by length and cuts the order into runs so that the most expensive
/// one costs least, which is exact for such cuts. Whole runs then go to ranks. The makespan is
/// never above that of balance()'s division.
///
/// `problem` is the step without padding: costs by module, ranks, microbatches and slowdowns.
/// Makespan and bound of the result do not include the fixed seconds of microbatches. Pure and
/// deterministic. Errors: those of balance(); kResourceExhausted if neither division keeps the
/// limits.
Result<BalanceResult> plan_padded(const std::vector<Load>& loads, const BalanceProblem& problem,
                                  const BalanceOptions& options, const CostModel& model,
                                  const MicrobatchLimits& limits);

/// Returns whether microbatches of these samples keep the limits as they are run.
bool keeps_limits(const std::vector<Load>& loads,
                  const std::vector<std::vector<std::uint32_t>>& bins, const CostModel& model,
                  const MicrobatchLimits& limits);

/// Returns a number of microbatches below which no division of padded samples keeps the limits. It
/// is exact if max_tokens is the only limit: where each microbatch holds the longest samples that
/// are left, as many as have room, those that remain are as short as can be.
std::int64_t least_padded_microbatches(const std::vector<Load>& loads, const CostModel& model,
                                       const MicrobatchLimits& limits);

}  // namespace isocost
