#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/simulator.h"
#include "base/load.h"
#include "base/result.h"
#include "cli/lab/emulated_disturbance.h"

namespace isocost::cli {

/// Trainers that compute nothing: a thread and a real client for each stage of every replica of
/// both modules, a real node, and each pass waited out instead of run. What enters which microbatch
/// is as the node's routing tables say.
struct EmulatedJob {
  PipelineModel model = {};
  JobModel job = {};                 ///< Prices the microbatches that arrive ...
  Layout layout = {};                ///< ... spread over the tensor ranks of this.
  std::span<const Load> loads = {};  ///< Of the sample whose id is congruent to the index.
  EmulatedDisturbance disturbance = {};
  double time_scale = 1;  ///< Emulated seconds for a modelled one.
  std::string endpoint = {};
  std::size_t steps = 1;
  std::size_t warm_up = 1;           ///< Steps before these that are not counted.
  std::chrono::seconds timeout{60};  ///< For any wait on another thread.
};

/// One counted step as it went.
struct EmulatedStep {
  double seconds = 0;      ///< From the first pass to the last reduced gradient.
  double data_wait_s = 0;  ///< Mean over the stages: blocked for a microbatch.
  PipelineStep work;       ///< What they did, for the simulator.
  bool coupled = true;     ///< See is_coupled.
};

/// Runs the job's trainers against a node that is serving. Blocks. Errors: kCancelled; what a
/// client fails with; kDeadlineExceeded where a thread waits too long for another; kInvalidArgument
/// where the node delivers another number of microbatches than the model has. Every thread has
/// ended when it returns.
Result<std::vector<EmulatedStep>> emulate_trainers(const EmulatedJob& job,
                                                   const std::stop_token& stop);

}  // namespace isocost::cli
