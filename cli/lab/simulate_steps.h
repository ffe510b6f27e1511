#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/result.h"
#include "cli/lab/simulate_arguments.h"
#include "cli/trace/sampled_batches.h"
#include "loader/report/pipeline_svg.h"

namespace isocost::cli {

/// One policy over all simulated steps; means unless stated otherwise.
struct PolicyResult {
  PipelinePolicy policy = PipelinePolicy::kInOrder;
  double step_s = 0;
  double idle_fraction = 0;
  double microbatch_max_over_mean = 0;
  double rank_max_over_mean = 0;
  double plan_s = 0;               ///< Measured, not simulated.
  double bound_s = 0;              ///< pipeline_bound, a lower bound on any plan.
  double peak_activation_gib = 0;  ///< Largest value of all steps.
  double memory_gib =
      0;             ///< Largest value of all steps, with the state of the module's fullest stage.
  bool fits = true;  ///< Whether every step keeps the cap on activations.
  PipelinePicture picture = {};  ///< Picture of the first step.
};

/// Decoupled and coupled plans of the same steps, both by policy cost.
struct DecoupledResult {
  double step_s = 0;                ///< Mean step when decoupled.
  double coupled_s = 0;             ///< Mean step when coupled.
  std::size_t decoupled_steps = 0;  ///< Number of steps that are shorter decoupled.
};

struct SimulatedPolicies {
  std::vector<PolicyResult> policies;
  DecoupledResult decoupled;  ///< Filled in with --decouple.
};

/// Parses --balance, NAME[,NAME...]. Errors: kInvalidArgument for an unknown name.
Result<std::vector<PipelinePolicy>> parse_policies(const std::string& names);

/// Plans and simulates every batch by every policy, with a progress bar. `batches` are in the
/// seconds of the model profile. Errors: those of plan_pipeline and compose_pipeline_batches.
Result<SimulatedPolicies> simulate_steps(const SimulateArguments& arguments,
                                         const std::vector<PipelinePolicy>& policies,
                                         const JobModel& job, const Layout& layout,
                                         const PipelineModel& model, const SampledBatches& batches);

}  // namespace isocost::cli
