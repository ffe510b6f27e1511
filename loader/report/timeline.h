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
#include "transport/wire/messages.h"

namespace isocost {

/// Draws the newest step that all receivers have measured, as predicted when it was planned and as
/// measured. Both run through the pipeline simulator, one with the planned and one with the
/// reported seconds of each pass. Predictions, and trainers that do not report forward and backward
/// separately, use the plan's share of forward; the seconds of a stage are divided over its model
/// chunks as predicted. Steps that the schedule cannot run (a tail of interleaved stages) are left
/// out. Thread-safe.
class Timeline {
 public:
  /// `layout` must outlive the object; null: receivers are data-parallel ranks.
  explicit Timeline(const ServedLayout* layout) : layout_(layout) {}

  /// Adds a rank's report of a microbatch of a step that the node holds. A report whose seconds are
  /// not a time (see is_module_time) is ignored, and its step stays incomplete.
  void reported(const StepId& id, std::int32_t rank, const Report& report, const StepPlan& plan)
      ISOCOST_EXCLUDES(mutex_);

  /// Returns a self-contained SVG file. While no step has been measured completely, the picture
  /// holds a sentence that says so.
  std::string svg() const ISOCOST_EXCLUDES(mutex_);

 private:
  struct Step {
    PipelineModel model;
    PipelineStep predicted;
    PipelineStep measured;
    MissingReports missing;
    /// [encoder replicas][microbatches]: the pipeline's slot of each; empty ones have none.
    std::vector<std::vector<std::uint32_t>> slots;
  };
  /// Seconds of a receiver's forward and backward passes of one of its microbatches.
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
