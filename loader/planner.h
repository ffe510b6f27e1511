#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/balancer.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/node_options.h"
#include "loader/served_layout.h"

namespace isocost {

/// A sample's place in a step: an index into the step's samples, and what it weighs in the loss.
struct PlannedSample {
  std::uint32_t slot = 0;
  float weight = 1.0F;  ///< 0: a repeat that keeps a rank busy and counts for nothing.
};

struct PlannedMicrobatch {
  std::vector<PlannedSample> samples;
  Load load;                  ///< As delivered: packed.
  Load run_load;              ///< As the trainer runs it, padding included.
  MicrobatchShape shape;      ///< Of the latter, for measuring it: see Measurement.
  ModuleSeconds predicted{};  ///< On its rank.
};

/// Which sample of a global batch goes to which rank and microbatch.
struct StepPlan {
  std::uint32_t microbatches = 1;         ///< Per rank, the same for all.
  std::vector<PlannedMicrobatch> places;  ///< [ranks × microbatches], rank by rank.
  std::uint64_t global_label_tokens = 0;  ///< Of samples with weight, each counted once.
  double makespan_s = 0;                  ///< Predicted; of the policy's objective.
  double lower_bound_s = 0;
  std::uint64_t hash = 0;     ///< Of the plan's integers: equal plans have equal hashes.
  std::uint32_t profile = 0;  ///< By which of a run's profiles it was priced, counted from 0.

  const PlannedMicrobatch& place(std::int64_t rank, std::uint32_t microbatch) const {
    return places[static_cast<std::size_t>(rank) * microbatches + microbatch];
  }
};

/// A step's samples as the planner sees them: loads and weights, nothing else.
struct PlanInput {
  std::vector<Load> loads;
  std::vector<float> weights;
  std::vector<std::uint64_t> ids;  ///< Only hashed.
};

/// Microbatches per rank for `samples` samples: `full` for a whole global batch, fewer for a tail,
/// never more than give every microbatch a sample, at least one.
std::uint32_t microbatches_for(std::int64_t samples, const NodeOptions& options);

/// Lays a global batch out. Pure and deterministic: the same input, options and coefficients give
/// the same plan, byte for byte. With a pipelined `layout` a rank's microbatches are divided and
/// ordered against the pipeline's simulator (a smaller tail: by the largest microbatch), and
/// makespan and bound are those of the simulated step. Where there are fewer samples than ranks,
/// ranks without one get a zero-weight repeat. Errors: kInvalidArgument for no samples;
/// kResourceExhausted where the memory cap cannot be kept.
Result<StepPlan> plan_step(const PlanInput& input, const CostModel& model,
                           const NodeOptions& options, const ServedLayout* layout = nullptr);

}  // namespace isocost
