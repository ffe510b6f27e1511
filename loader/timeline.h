#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "balancer/pipeline.h"
#include "loader/served_layout.h"
#include "loader/step_plan.h"
#include "transport/messages.h"

namespace isocost {

/// Draws the newest step that all receivers have measured, beside what was predicted of it when it
/// was planned: both run through the pipeline simulator, one with the planned and one with the
/// reported seconds of each pass. Where trainers do not tell forward from backward, and for what is
/// predicted, forward takes the plan's share. Internally synchronised.
class Timeline {
 public:
  /// `layout` outlives this; null: receivers are data-parallel ranks.
  explicit Timeline(const ServedLayout* layout) : layout_(layout) {}

  /// A rank's report on a microbatch of this plan, which the node still holds. What is no time (see
  /// CostModel::observe) is left out, and with it the step.
  void reported(std::uint64_t job, std::int32_t rank, const Report& report, const StepPlan& plan);

  /// Self-contained SVG; a picture that says so where no step has been measured whole.
  std::string svg() const;

 private:
  // Jobs first: they come in order.
  struct StepId {
    std::uint64_t job;
    std::uint32_t epoch;
    std::uint32_t step;
    auto operator<=>(const StepId&) const = default;
  };
  struct Step {
    PipelineStep predicted;
    PipelineStep measured;
    /// [receivers][microbatches]: not reported yet, and something to report.
    std::vector<std::vector<bool>> missing;
    std::size_t left = 0;
    /// [encoder replicas][microbatches]: slots of the pipeline, without those that hold nothing.
    std::vector<std::vector<std::uint32_t>> slots;
  };

  Step open(const StepPlan& plan) const;
  void set(PipelineStep& step, const Step& of, const StepPlan& plan, std::size_t receiver,
           std::uint32_t microbatch, double forward_s, double backward_s) const;

  const ServedLayout* layout_;
  mutable std::mutex mutex_;
  std::map<StepId, Step> open_;
  std::optional<std::pair<StepId, Step>> newest_;
};

}  // namespace isocost
