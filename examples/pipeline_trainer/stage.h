#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

#include "balancer/layout/layout.h"
#include "balancer/layout/place.h"
#include "base/load.h"
#include "base/result.h"
#include "examples/pipeline_trainer/links.h"
#include "examples/pipeline_trainer/microbatch_stream.h"
#include "examples/pipeline_trainer/stage_model.h"

namespace isocost {

/// Inputs of a stage; they must outlive it.
struct StageParts {
  const Layout& layout;
  Place place;
  StageModel& model;
  Links& links;
  MicrobatchStream& stream;
  torch::Dtype dtype;
  std::int64_t width;  ///< Width of the LLM, and of every tensor between stages.
};

/// Results of a stage in a step.
struct StageWorked {
  double busy_s = 0;  ///< Forward and backward.
  double loss = 0;    ///< In the last stage: this replica's part of the global batch's loss.
};

/// One stage of a pipeline. It runs the passes of a step in the order of its schedule.
class Stage {
 public:
  virtual ~Stage() = default;
  /// Runs forward and backward of the step's microbatches, and adds to the gradients. Errors: those
  /// of MicrobatchStream and Links.
  virtual Result<StageWorked> run_step() = 0;
};

std::unique_ptr<Stage> make_encoder_stage(const StageParts& parts);
std::unique_ptr<Stage> make_llm_stage(const StageParts& parts);

/// Returns the receiver of the place with tensor index 0. The layout must have that place.
std::size_t receiver_at(const Layout& layout, LayoutModule module, std::size_t data,
                        std::size_t stage);

using SecondsByModule = std::array<double, kModules>;
inline constexpr SecondsByModule kNoSeconds = {-1, -1, -1};

/// Adds its own lifetime to a module's seconds.
class Timed {
 public:
  Timed(SecondsByModule& seconds, CostModule module)
      : seconds_(seconds.at(static_cast<std::size_t>(module))) {}
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Returns the sum over the modules that were measured.
double total(const SecondsByModule& seconds);

}  // namespace isocost
