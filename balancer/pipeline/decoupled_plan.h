#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "balancer/pipeline/simulator.h"
#include "base/result.h"

namespace isocost {

/// Samples whose encoder work each encoder slot does, with slots in the order in which they run:
/// [encoder replica][slot][samples].
///
/// A sample with encoder work is in exactly one slot; a sample without is in none. Every replica
/// has a slot, and no slot is empty. Along the slots of a replica, the index of the microbatch (of
/// any LLM replica) that needs a sample never descends. This order prevents deadlock: before an
/// encoder stage waits for a slot's gradients, it has run every slot that the LLM takes in before
/// it returns them.
using EncoderSlots = std::vector<std::vector<std::vector<std::uint32_t>>>;

/// A step whose encoder work is divided separately from the LLM's (decoupled), or in the LLM's
/// microbatches (coupled).
struct DecoupledPlan {
  MicrobatchBins bins;   ///< [LLM replicas × microbatches], samples in ascending order.
  EncoderSlots encoder;  ///< Empty if the plan is coupled: then coupled_feeds applies.
  bool decoupled = false;
  double step_s = 0;         ///< Simulated seconds of the step.
  double coupled_s = 0;      ///< Seconds of the step of plan_pipeline() with the same options.
  double lower_bound_s = 0;  ///< Lower bound on any plan, coupled or decoupled.
  bool fits = true;          ///< Whether the activation caps are kept.
};

/// Returns the step of a decoupled plan. Each slot feeds each microbatch whose samples it holds,
/// and a feed carries the bytes of these samples. `encoder` must satisfy the rules of EncoderSlots.
PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> samples,
                       const MicrobatchBins& bins, const EncoderSlots& encoder);

/// Plans encoder and LLM separately if that makes the simulated step shorter than that of
/// plan_pipeline(), and returns the coupled plan otherwise (also for a tie). The plan is always
/// coupled if the encoder has no stages of its own, if fewer samples have encoder work than there
/// are encoder replicas, and for policies other than kCost. A plan that keeps the caps is preferred
/// to one that does not. Deterministic: budgets are counts. Errors: those of plan_pipeline().
Result<DecoupledPlan> plan_decoupled(const PipelineModel& model,
                                     std::span<const SampleCost> samples, PipelinePolicy policy,
                                     const PipelineSearchOptions& options);

}  // namespace isocost
