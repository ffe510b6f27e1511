#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/order.h"
#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/simulator.h"
#include "base/result.h"

namespace isocost {

/// Which samples' encoder work each encoder slot does, in the order in which slots run: [encoder
/// replica][slot][samples].
using EncoderSlots = std::vector<std::vector<std::vector<std::uint32_t>>>;

/// A step whose encoder work is divided apart from the LLM's, or as the LLM's microbatches are.
struct DecoupledPlan {
  MicrobatchBins bins;   ///< [LLM replicas × microbatches], samples ascending.
  EncoderSlots encoder;  ///< Empty where the plan is coupled: coupled_feeds say it then.
  bool decoupled = false;
  double step_s = 0;
  double coupled_s = 0;      ///< What plan_pipeline reaches with the same options.
  double lower_bound_s = 0;  ///< No plan can be below it, coupled or not.
  bool fits = true;          ///< The cap on activations is kept.
};

/// Whether slots belong to bins: every sample with encoder work is in exactly one slot, a sample
/// without in none; no slot and no replica is empty; and along a replica's slots the microbatch (of
/// any LLM replica) that needs a sample never descends. That order is what keeps a step from
/// waiting for itself: before an encoder stage waits for a slot's gradients it has run every slot
/// that the LLM takes in before it gives them. Errors: kInvalidArgument naming sample or slot.
Status check_slots(const PipelineModel& model, std::span<const SampleCost> samples,
                   const MicrobatchBins& bins, const EncoderSlots& encoder);

/// The step of such a plan: a feed from each slot to each microbatch that has samples in it, its
/// bytes theirs. `encoder` is as check_slots asks.
PipelineStep make_step(const PipelineModel& model, std::span<const SampleCost> samples,
                       const MicrobatchBins& bins, const EncoderSlots& encoder);

/// Plans encoder and LLM each on its own where that makes the simulated step shorter than
/// plan_pipeline's, and is coupled where it does not (a tie is coupled), where the encoder has no
/// stages of its own or fewer samples with encoder work than replicas, and for policies other than
/// kCost. A plan that keeps the caps goes before one that does not. Deterministic: budgets are
/// counts. Errors: those of plan_pipeline.
Result<DecoupledPlan> plan_decoupled(const PipelineModel& model,
                                     std::span<const SampleCost> samples, PipelinePolicy policy,
                                     const OrderOptions& options);

}  // namespace isocost
