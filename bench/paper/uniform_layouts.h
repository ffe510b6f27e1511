#pragma once

#include <cstddef>
#include <optional>

#include "balancer/layout/layout.h"
#include "balancer/layout/layout_model.h"
#include "base/result.h"
#include "bench/paper/layout_steps.h"

namespace isocost::paper {

/// Layouts that treat encoder and LLM alike: equal tensor and data degrees. All fit the memory with
/// random microbatches on every batch.
struct UniformLayouts {
  /// The encoder on the first stage, one sample in each microbatch, and the smallest tensor degree,
  /// then the smallest pipeline degree, that fits.
  std::optional<Layout> rule;
  /// The shortest mean step with random microbatches of all degrees, cuts and numbers of
  /// microbatches.
  std::optional<Layout> tuned;
  /// Every GPU holds the whole model, with as many microbatches as make the shortest step.
  std::optional<Layout> data_parallel;
  /// Data parallel with weights sharded over all GPUs (FSDP).
  std::optional<Layout> sharded;
  std::size_t tried = 0;
};

/// Simulates every uniform layout on the batches. Errors: those of the simulator.
Result<UniformLayouts> uniform_layouts(const JobModel& job, std::size_t gpus,
                                       const Batches& batches);

}  // namespace isocost::paper
