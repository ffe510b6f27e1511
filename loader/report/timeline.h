#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balancer/pipeline/simulator.h"
#include "base/mutex.h"
#include "loader/plan/missing_reports.h"
#include "loader/plan/served_layout.h"
#include "loader/plan/step_plan.h"
#include "transport/messages.h"

namespace isocost {

/// Draws the newest step that all receivers have measured, beside what was predicted of it when it
/// was planned: both run through the pipeline simulator, one with the planned and one with the
/// reported seconds of each pass. Where trainers do not tell forward from backward, and for what is
/// predicted, forward takes the plan's share; a stage's seconds are divided over its model chunks
/// as predicted. Steps that the schedule cannot run (a tail of interleaved stages) are left out.
/// Internally synchronised.
class Timeline {
 public:
  /// `layout` outlives this; null: receivers are data-parallel ranks.
  explicit Timeline(const ServedLayout* layout) : layout_(layout) {}

  /// A rank's report on a microbatch of a step that the node holds. Seconds that are no time (see
  /// is_time) are left out, and with them the step.
  void reported(const StepId& id, std::int32_t rank, const Report& report, const StepPlan& plan);

  /// Self-contained SVG; a picture that says so where no step has been measured whole.
  std::string svg() const;

 private:
  struct Step {
    PipelineModel model;
    PipelineStep predicted;
    PipelineStep measured;
    MissingReports missing;
    /// [encoder replicas][microbatches]: slots of the pipeline, without those that hold nothing.
    std::vector<std::vector<std::uint32_t>> slots;
  };
  /// A receiver's pass forward and backward of one of its microbatches.
  struct Passes {
    std::size_t receiver = 0;
    std::uint32_t microbatch = 0;
    double forward_s = 0;
    double backward_s = 0;
  };

  Step open(const StepPlan& plan) const;
  static void set(const StepPlan& plan, const Step& of, const Passes& passes, PipelineStep& step);

  const ServedLayout* layout_;
  mutable Mutex mutex_;
  OpenSteps<Step> open_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<std::pair<StepId, Step>> newest_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
