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

/// Trainers that compute nothing: each stage of every replica of both modules has a thread and a
/// real client, and waits for the time of its passes. The node is real, and its routing tables
/// determine which samples enter which microbatch.
struct EmulatedJob {
  PipelineModel model = {};
  JobModel job = {};   ///< Predicts the seconds of the microbatches that arrive.
  Layout layout = {};  ///< Layout whose tensor ranks share these seconds.
  std::span<const Load> loads =
      {};  ///< Loads of the samples: sample i has the load i modulo their number.
  EmulatedDisturbance disturbance = {};
  double time_scale = 1;       ///< Emulated seconds per modelled second.
  bool virtual_clock = false;  ///< See StageClock.
  std::string endpoint = {};
  std::size_t steps = 1;
  std::size_t warm_up = 1;           ///< Steps before the first measured one.
  std::chrono::seconds timeout{60};  ///< Limit of any wait for another thread.
};

/// A step included in the measurement, after the warm-up.
struct EmulatedStep {
  double seconds = 0;    ///< From the first pass to the last reduced gradient.
  PipelineStep work;     ///< The stages' work, for the simulator.
  bool coupled = true;   ///< See is_coupled.
  bool measured = true;  ///< Whether the node asked for its seconds.
};

/// Runs the job's trainers against a node that is serving. Blocks until all threads have ended.
/// Errors: kCancelled; those of Client; kDeadlineExceeded if a thread waits longer than `timeout`
/// for another; kInvalidArgument if the node delivers another number of microbatches than the model
/// has.
Result<std::vector<EmulatedStep>> run_emulated_pipeline(const EmulatedJob& job,
                                                        const std::stop_token& stop);

}  // namespace isocost::cli
