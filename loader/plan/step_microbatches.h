#pragma once

#include <cstdint>

#include "loader/plan/plan_options.h"

namespace isocost {

/// Returns the number of microbatches per rank for a step of `samples` samples:
/// options.fixed_microbatches() for a whole global batch, proportionally fewer for a smaller one,
/// so that every microbatch can have a sample; at least one.
std::uint32_t microbatches_for(std::int64_t samples, const PlanOptions& options);

/// Returns the number of microbatches per rank in an epoch of so many steps and samples, the last
/// step's as microbatches_for has them. `options` has a fixed number of microbatches.
std::int64_t microbatches_of_epoch(std::int64_t steps, std::int64_t samples,
                                   const PlanOptions& options);

}  // namespace isocost
