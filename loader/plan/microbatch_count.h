#pragma once

#include <cstdint>
#include <vector>

#include "base/load.h"
#include "costmodel/cost_model.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// Returns the number of microbatches per rank of a whole step: the one that was given, or 4 if
/// neither a number nor a limit was given; 0 if each step chooses its own.
std::int64_t fixed_microbatches(const PlanOptions& options);

/// Returns the number of microbatches per rank for a step of `samples` samples:
/// fixed_microbatches() for a whole global batch, proportionally fewer for a smaller one, so that
/// every microbatch can have a sample; at least one.
std::uint32_t microbatches_for(std::int64_t samples, const PlanOptions& options);

/// Returns the number of microbatches per rank in an epoch of so many steps and samples, the last
/// step's as microbatches_for has them. `options` has a fixed number of microbatches.
std::int64_t microbatches_of_epoch(std::int64_t steps, std::int64_t samples,
                                   const PlanOptions& options);

/// Numbers of microbatches per rank that the planner tries, in ascending order.
struct MicrobatchRange {
  std::uint32_t first = 1;
  std::uint32_t last = 1;
};

/// Returns the numbers to try for a step of these samples: one if it is fixed, otherwise from the
/// least that can keep the limits to one sample per microbatch. `layout` may be null.
MicrobatchRange microbatch_range(const std::vector<Load>& loads, const CostModel& model,
                                 const PlanOptions& options, const MicrobatchLimits& limits,
                                 const ServedLayout* layout);

}  // namespace isocost
