#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "costmodel/cost_model.h"
#include "loader/plan/missing_reports.h"
#include "loader/plan/step_plan.h"
#include "transport/messages.h"

namespace isocost {

/// What one receiver of a plan was planned to take and took, in seconds summed since the node
/// began.
struct RankTotals {
  ModuleSeconds predicted{};  ///< When the step was planned, of microbatches that were measured.
  ModuleSeconds measured{};   ///< As reported.
  double forward = 0;         ///< Of what was reported: in forward passes, where trainers tell.
  double busy = 0;       ///< As reported, all modules; of steps that every rank measured whole.
  double idle = 0;       ///< In these, what the slowest rank took longer.
  double data_wait = 0;  ///< The trainer was blocked for a microbatch, as it reports.
  bool operator==(const RankTotals&) const = default;
};

/// Adds up what is planned, sent and measured, for metrics. Internally synchronised: each call
/// takes its lock for well under a microsecond, `totals` for a copy.
class TrainingMeter {
 public:
  struct Totals {
    std::vector<RankTotals> ranks;  ///< As many as any job had that planned or reported.
    std::uint64_t measured_steps = 0;
    std::uint64_t microbatches_sent = 0;
    /// Labels and all; those sent again count again; of weight 0: never.
    std::uint64_t samples_sent = 0;
    // Of the step planned last; NaN before the first.
    double imbalance = std::numeric_limits<double>::quiet_NaN();  ///< Slowest rank over mean.
    double makespan_s = std::numeric_limits<double>::quiet_NaN();
    double lower_bound_s = std::numeric_limits<double>::quiet_NaN();
  };

  /// The next step's plan.
  void planned(const StepPlan& plan);
  void sent(const StepPlan& plan, std::size_t receiver, std::uint32_t microbatch);

  /// A rank's report on a microbatch of a step that the node holds. Modules of which nothing was
  /// planned there, and seconds that are no time (see is_time), count for nothing; a microbatch
  /// reported again does not complete a step twice.
  void reported(const StepId& id, std::int32_t rank, const Report& report, const StepPlan& plan);

  Totals totals() const;

 private:
  struct OpenStep {
    explicit OpenStep(const StepPlan& plan) : missing(plan), busy(plan.receivers()) {}
    MissingReports missing;
    std::vector<double> busy;  // [ranks]
  };
  void close(const OpenStep& step);
  RankTotals& rank(std::size_t rank);

  mutable std::mutex mutex_;
  Totals totals_;
  OpenSteps<OpenStep> open_;
};

}  // namespace isocost
