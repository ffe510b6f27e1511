#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "base/load.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// A sample of an LLM microbatch: `bin` indexes StepPlan::bins, `sample` its samples.
struct BinSample {
  std::uint32_t bin = 0;
  std::uint32_t sample = 0;
};

/// Which encoder microbatch does the encoder's work of which samples: [encoder
/// replicas][microbatches of each, at least one][samples]. Every sample with media is in it once
/// for each bin that it is in.
using EncoderPartition = std::vector<std::vector<std::vector<BinSample>>>;

/// An encoder microbatch for each LLM microbatch, those of coupled_feeds. A replica that a small
/// tail leaves without any has one that is empty: every receiver has something to take in each
/// step.
EncoderPartition coupled_partition(const StepPlan& plan, std::span<const Load> loads,
                                   std::size_t encoder_replicas);

/// Slots of a step that balance() or plan_pipeline divided, as plan_decoupled gives them: samples
/// by their place in the step, each of them in one bin.
EncoderPartition decoupled_partition(const StepPlan& plan, const EncoderSlots& slots);

/// The partition as microbatches, which hold samples alone.
std::vector<std::vector<PlannedMicrobatch>> encoder_microbatches(const StepPlan& plan,
                                                                 const EncoderPartition& partition);

/// Writes the routing tables of both sides: of `plan.bins` and `plan.encoder`.
void route(std::span<const Load> loads, const EncoderPartition& partition, StepPlan& plan);

}  // namespace isocost
