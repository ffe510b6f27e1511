#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/pipeline/simulator.h"
#include "base/random.h"

namespace isocost::test {

/// A pipeline without encoder: `replicas` of `stages` stages, every pass the same.
PipelineStep equal_step(Schedule schedule, std::size_t replicas, std::size_t stages,
                        std::size_t chunks, std::size_t microbatches, const StagePass& pass);

/// Whole numbers of seconds, 0 to 9, for every pass; bytes, too. An encoder of its own in half of
/// the steps, with degrees and routing of its own.
PipelineStep random_step(Random& random);

/// The same step by another road: time passes in whole seconds, and at each one every free stage
/// starts the next pass of its program whose inputs are there. Only for whole seconds, and links
/// whose transfers take whole seconds. Returns the end of the last pass, reductions left out.
double tick_by_tick(const PipelineStep& step, const PipelineReport& programs);

}  // namespace isocost::test
