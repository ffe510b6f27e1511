#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "costmodel/cost_model.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/served_layout.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// Modalities, each with a bit.
using ModalitySet = std::uint8_t;
constexpr ModalitySet bit_of(Modality modality) {
  return static_cast<ModalitySet>(1U << static_cast<unsigned>(modality));
}

/// The samples of a step as the planner sees them.
struct PlanInput {
  std::vector<Load> loads;
  std::vector<float> weights;
  std::vector<std::uint64_t> ids;  ///< Used only for the plan's hash.
  /// The media of each sample, as the encoder sees them (see Recipe::encoder_call). May be empty
  /// if `dummies` is.
  std::vector<ModalitySet> media = {};
  /// A dummy sample for each modality that microbatches may lack (see Recipe::dummy). Empty: none
  /// are added, whatever the options say.
  std::vector<DummyChoice> dummies = {};
};

/// Divides a global batch into microbatches of all ranks, by options.balance. Pure and
/// deterministic: the same input, options and coefficients give the same plan, byte for byte.
///
/// With a pipelined `layout` the microbatches are divided and ordered against the pipeline
/// simulator, and makespan and bound are those of the simulated step; a smaller last batch is
/// divided by its largest microbatch instead. An encoder with ranks of its own runs the encoder
/// part of each LLM microbatch (see coupled_feeds), or, if that is faster and the step is whole, a
/// partition of its own (see plan_decoupled). With fewer samples than ranks, the remaining ranks
/// get a repeat of weight 0.
///
/// Samples of similar length share a microbatch if the trainer pads the LLM (see plan_padded).
///
/// A microbatch that lacks media which the same microbatch of another rank has gets a dummy sample
/// (see PlanOptions::dummy_media), for which the limits leave room. Only where a sample, or no
/// division, leaves that room, a microbatch exceeds a limit by its dummies.
///
/// Every microbatch keeps the limits of the options, except for the samples in
/// StepPlan::over_limit: a single sample that exceeds a limit shares its microbatch with nothing
/// that the limit counts. If the number of microbatches is not fixed, it is the smallest for
/// which a division is found; where each sample needs a microbatch of its own and ranks would have
/// different numbers of them, the others get a repeat of weight 0. A smaller last batch has as many
/// microbatches as it needs, up to the fixed number.
///
/// Errors: kInvalidArgument if there are no samples, or the model profile lacks the values that
/// max_memory limits; kResourceExhausted if no division into a fixed number of microbatches keeps
/// the limits, with the numbers.
Result<StepPlan> plan_step(const PlanInput& input, const CostModel& model,
                           const PlanOptions& options, const ServedLayout* layout = nullptr);

}  // namespace isocost
