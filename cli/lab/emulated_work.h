#pragma once

#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/simulator.h"
#include "cli/lab/replica_timeline.h"

namespace isocost::cli {

/// The microbatches of a step [replicas][slots].
using EmulatedMicrobatches = std::vector<std::vector<EmulatedMicrobatch>>;

/// Returns the work of emulated trainers in a step, for the simulator. `encoder` is empty if the
/// encoder has no ranks of its own. Slots of it that feed nothing are left out: they had no work.
PipelineStep work_of(const PipelineModel& model, const EmulatedMicrobatches& encoder,
                     const EmulatedMicrobatches& llm);

/// Returns whether each encoder microbatch feeds one microbatch of the LLM, and each of these is
/// fed by one.
bool is_coupled(const EmulatedMicrobatches& llm);

}  // namespace isocost::cli
