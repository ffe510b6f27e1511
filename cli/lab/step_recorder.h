#pragma once

#include <cstddef>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "cli/lab/emulated_pipeline.h"
#include "cli/lab/emulated_work.h"
#include "cli/lab/replica_timeline.h"

namespace isocost::cli {

/// Records the steps of emulated trainers. begin() and end() run at barriers, while the threads of
/// all stages wait.
class StepRecorder {
 public:
  /// `model` must outlive the recorder. The first `warm_up` steps are not recorded.
  StepRecorder(const PipelineModel& model, std::size_t warm_up)
      : model_(model), warm_up_(warm_up) {}

  void begin(EmulatedTime now) { started_ = now; }
  /// Takes the microbatches of the step; `encoder` is empty if the encoder has no ranks of its own.
  void end(EmulatedTime now, const EmulatedMicrobatches& encoder, const EmulatedMicrobatches& llm);

  const std::vector<EmulatedStep>& steps() const { return steps_; }

 private:
  const PipelineModel& model_;
  std::size_t warm_up_;
  EmulatedTime started_;
  std::size_t finished_ = 0;
  std::vector<EmulatedStep> steps_;
};

}  // namespace isocost::cli
