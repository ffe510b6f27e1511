#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "loader/node/internal/current_job.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/internal/training_meter.h"
#include "loader/plan/missing_reports.h"
#include "loader/report/timeline.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Passes trainers' reports on to the cost model, the meter and the timeline. Drops a report on a
/// step that is no longer held, one whose seconds were reported before, one with seconds of a
/// module that the rank's stage has no layers of, seconds that the node did not ask for, and any
/// beyond what the cost model can queue.
/// `take` belongs to the socket's thread and never waits for planning; `dropped` may be called from
/// any thread.
class ReportIntake {
 public:
  struct Context {
    const CurrentJob& job;
    OnlineModel& model;
    TrainingMeter& meter;
    Timeline* timeline;  ///< Null: no timeline is drawn.
    std::function<std::string(std::int32_t rank)> name;
    LogSink log;
    /// Tells the rank's client. Empty: nobody is told.
    std::function<void(std::int32_t rank, const std::string& text)> tell = {};
  };
  explicit ReportIntake(Context context) : context_(std::move(context)) {}

  /// Takes a report of a client that holds the rank. Logs the 1st, 2nd, 4th, 8th ... dropped
  /// report.
  void take(std::int32_t rank, const Report& report) ISOCOST_EXCLUDES(mutex_);

  std::int64_t dropped() const ISOCOST_EXCLUDES(mutex_);

 private:
  struct Dropped {
    std::string why;
    bool tell = false;  // whether the trainer can do something about it
  };
  /// Passes a report on. Returns nothing, or why it is dropped.
  std::optional<Dropped> try_take(std::int32_t rank, const Report& report);
  std::optional<Dropped> take_unmeasured(std::int32_t rank, const Report& report);

  const Context context_;
  OpenSteps<MeasuredModules> measured_;
  mutable Mutex mutex_;
  std::int64_t dropped_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

}  // namespace isocost
