#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/served_layout.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// A step's samples as the planner sees them: loads and weights, nothing else.
struct PlanInput {
  std::vector<Load> loads;
  std::vector<float> weights;
  std::vector<std::uint64_t> ids;  ///< Only hashed.
};

/// Microbatches per rank for `samples` samples: `full` for a whole global batch, fewer for a tail,
/// never more than give every microbatch a sample, at least one.
std::uint32_t microbatches_for(std::int64_t samples, const PlanOptions& options);

/// Lays a global batch out. Pure and deterministic: the same input, options and coefficients give
/// the same plan, byte for byte. With a pipelined `layout` a rank's microbatches are divided and
/// ordered against the pipeline's simulator (a smaller tail: by the largest microbatch), and
/// makespan and bound are those of the simulated step; an encoder with ranks of its own does its
/// work microbatch by microbatch (see coupled_feeds), or, in whole steps of a layout whose modules
/// differ in replicas, in slots of its own where that is faster (see plan_decoupled). Where there
/// are fewer samples than ranks, ranks without one get a zero-weight repeat. Errors:
/// kInvalidArgument for no samples; kResourceExhausted where the memory cap cannot be kept.
Result<StepPlan> plan_step(const PlanInput& input, const CostModel& model,
                           const PlanOptions& options, const ServedLayout* layout = nullptr);

}  // namespace isocost
