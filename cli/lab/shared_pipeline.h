#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "cli/lab/barrier.h"
#include "cli/lab/emulated_pipeline.h"
#include "cli/lab/emulated_work.h"
#include "cli/lab/fault.h"
#include "cli/lab/replica_timeline.h"
#include "cli/lab/step_recorder.h"
#include "costmodel/sample_cost.h"

namespace isocost::cli {

/// State that the stages of one module share; empty if the module has no ranks of its own.
struct SharedModule {
  explicit SharedModule(const ModuleStages& module);

  EmulatedMicrobatches microbatches() const;

  std::vector<std::unique_ptr<ReplicaTimeline>> timelines;  ///< [replicas]
  std::vector<std::unique_ptr<Barrier>>
      reductions;  ///< [stages]: reductions of gradients over the replicas.
};

/// State that the threads of all stages of a job share. Thread-safe as its parts are.
struct SharedPipeline {
  /// The job must outlive this object.
  SharedPipeline(const EmulatedJob& of_job, std::vector<std::uint32_t> taken_before,
                 std::size_t stages, const std::stop_token& stop);

  const EmulatedJob& job;
  const std::vector<std::uint32_t> taken;  ///< See taken_before in schedule.h.
  const SamplePrices prices;
  Fault fault;
  SharedModule encoder;
  SharedModule llm;
  StepRecorder recorder;
  Barrier start;  ///< Start of a step, for all stages.
  Barrier end;
};

}  // namespace isocost::cli
