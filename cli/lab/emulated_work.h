#pragma once

#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/simulator.h"
#include "cli/lab/emulated_sync.h"

namespace isocost::cli {

/// A step's microbatches, replica by replica.
using EmulatedMicrobatches = std::vector<std::vector<EmulatedMicrobatch>>;

/// What emulated trainers did in a step, for the simulator. `encoder` is empty where no ranks are
/// the encoder's own; a slot of it that feeds nothing did nothing, and is left out.
PipelineStep work_of(const PipelineModel& model, const EmulatedMicrobatches& encoder,
                     const EmulatedMicrobatches& llm);

/// An encoder's microbatch is one of the LLM's, whatever replica does it.
bool is_coupled(const EmulatedMicrobatches& llm);

}  // namespace isocost::cli
