#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/plan/missing_reports.h"
#include "loader/plan/step_plan.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Sums what was planned, sent and measured, for metrics. Internally synchronised: each call holds
/// its lock for less than a microsecond, `totals` while it copies.
class TrainingMeter {
 public:
  /// `sources`: the names of a mixture's sources.
  explicit TrainingMeter(const std::vector<std::string>& sources = {});

  /// Counts the next step's plan.
  void planned(const StepPlan& plan) ISOCOST_EXCLUDES(mutex_);
  /// Counts a microbatch that was sent.
  void sent(const SealedStep& step, std::size_t receiver, std::uint32_t microbatch)
      ISOCOST_EXCLUDES(mutex_);

  /// Counts a rank's report on a microbatch of a step that the node holds. Modules for which
  /// nothing was planned there, and seconds for which is_module_time is false, are ignored. A
  /// second report on a microbatch does not complete a step twice.
  void reported(const StepId& id, std::int32_t rank, const Report& report, const StepPlan& plan)
      ISOCOST_EXCLUDES(mutex_);

  /// Counts how long a rank waited for data in a step that nobody measures.
  void waited(std::int32_t rank, const Report& report) ISOCOST_EXCLUDES(mutex_);

  TrainingTotals totals() const ISOCOST_EXCLUDES(mutex_);

 private:
  struct OpenStep {
    explicit OpenStep(const StepPlan& plan) : missing(plan), busy(plan.receivers()) {}
    MissingReports missing;
    std::vector<double> busy;  // [ranks], measured seconds
  };
  void close(const OpenStep& step) ISOCOST_REQUIRES(mutex_);
  void count_sources(const SealedStep& step, const PlannedMicrobatch& microbatch)
      ISOCOST_REQUIRES(mutex_);
  RankTotals& rank(std::size_t rank) ISOCOST_REQUIRES(mutex_);

  mutable Mutex mutex_;
  TrainingTotals totals_ ISOCOST_GUARDED_BY(mutex_);
  OpenSteps<OpenStep> open_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
