#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/simulator.h"
#include "base/random.h"

namespace isocost::test {

/// Returns a pipeline without encoder: `replicas` of `stages` stages, all passes equal.
PipelineStep equal_step(Schedule schedule, std::size_t replicas, std::size_t stages,
                        std::size_t chunks, std::size_t microbatches, const StagePass& pass);

/// Returns a random step in which every pass takes 0 to 9 whole seconds. Half of the steps have an
/// encoder with its own degrees and routing.
PipelineStep random_step(Random& random);

/// Simulates the step independently of simulate(): time advances in whole seconds, and at each
/// second every free stage starts the next pass of its program if its inputs have arrived. All
/// passes and transfers must take whole seconds. Returns the end of the last pass, without
/// reductions.
double tick_by_tick(const PipelineStep& step, const PipelineReport& programs);

/// Returns which rule of EncoderSlots the slots violate, or an empty string if they violate none.
/// `bins` must hold every sample once.
std::string slots_fault(const PipelineModel& model, std::span<const SampleCost> samples,
                        const MicrobatchBins& bins, const EncoderSlots& encoder);

}  // namespace isocost::test
