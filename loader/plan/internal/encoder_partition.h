#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "base/load.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// A sample of an LLM microbatch: `bin` is an index into StepPlan::bins, `sample` one into its
/// samples.
struct BinSample {
  std::uint32_t bin = 0;
  std::uint32_t sample = 0;
};

/// The samples that each encoder microbatch encodes: [encoder replicas][microbatches of each, at
/// least one][samples]. A sample with media occurs once for each LLM microbatch that holds it.
using EncoderPartition = std::vector<std::vector<std::vector<BinSample>>>;

/// Returns one encoder microbatch for each LLM microbatch, as coupled_feeds assigns them. If a step
/// has too few samples for every replica, the remaining replicas have one empty microbatch, so that
/// every receiver takes one in each step.
EncoderPartition coupled_partition(const StepPlan& plan, std::span<const Load> loads,
                                   std::size_t encoder_replicas);

/// Returns the partition that plan_decoupled found. Its slots hold samples by their index in the
/// step, and each sample is in one bin.
EncoderPartition decoupled_partition(const StepPlan& plan, const EncoderSlots& slots);

/// Returns the partition as microbatches in which only the samples are filled in.
std::vector<std::vector<PlannedMicrobatch>> encoder_microbatches(const StepPlan& plan,
                                                                 const EncoderPartition& partition);

/// Fills in the routing tables of `plan.bins` and `plan.encoder`.
void route(std::span<const Load> loads, const EncoderPartition& partition, StepPlan& plan);

}  // namespace isocost
