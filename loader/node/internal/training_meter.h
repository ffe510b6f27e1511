#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "loader/metrics/snapshot.h"
#include "loader/plan/missing_reports.h"
#include "loader/plan/step_plan.h"
#include "transport/messages.h"

namespace isocost {

/// Adds up what is planned, sent and measured, for metrics. Internally synchronised: each call
/// takes its lock for well under a microsecond, `totals` for a copy.
class TrainingMeter {
 public:
  /// The next step's plan.
  void planned(const StepPlan& plan);
  void sent(const StepPlan& plan, std::size_t receiver, std::uint32_t microbatch);

  /// A rank's report on a microbatch of a step that the node holds. Modules of which nothing was
  /// planned there, and seconds that are no time (see is_time), count for nothing; a microbatch
  /// reported again does not complete a step twice.
  void reported(const StepId& id, std::int32_t rank, const Report& report, const StepPlan& plan);

  TrainingTotals totals() const;

 private:
  struct OpenStep {
    explicit OpenStep(const StepPlan& plan) : missing(plan), busy(plan.receivers()) {}
    MissingReports missing;
    std::vector<double> busy;  // [ranks]
  };
  void close(const OpenStep& step);
  RankTotals& rank(std::size_t rank);

  mutable Mutex mutex_;
  TrainingTotals totals_;
  OpenSteps<OpenStep> open_;
};

}  // namespace isocost
