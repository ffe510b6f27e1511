#pragma once

#include <cstdint>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/plan/microbatch_limits.h"

namespace isocost {

/// Divides a step for a trainer that pads the LLM, at the cost of running it: each sequence of a
/// microbatch is as long as the longest. Limits hold for padded units.
///
/// Two divisions are compared: that of balance(), which ignores padding, and one that groups
/// samples of similar length. The latter sorts by length and cuts the order into runs so that the
/// most expensive run costs least, which is exact for such cuts. Whole runs then go to ranks. The
/// makespan is never above that of balance()'s division.
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
/// is exact if max_tokens is the only limit: it fills each microbatch with the longest samples that
/// are left, as many as have room, so the remaining ones are as short as possible.
std::int64_t least_padded_microbatches(const std::vector<Load>& loads, const CostModel& model,
                                       const MicrobatchLimits& limits);

}  // namespace isocost
