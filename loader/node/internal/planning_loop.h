#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/internal/current_job.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/node/internal/training_meter.h"

namespace isocost {

/// Functions from which a PlanningLoop takes its steps. Called on the planning thread, without a
/// lock.
struct PlanningInput {
  /// Called before the first step of a job is sealed.
  std::function<void(const JobTerms& job)> begin_job;
  /// Called when no further step of the job is needed.
  std::function<void()> end_job;
  /// Return the steps of an epoch, and the samples of its tail that are dropped.
  std::function<std::uint64_t(std::uint32_t epoch)> steps;
  std::function<std::uint64_t(std::uint32_t epoch)> dropped;
  /// Returns the step, decoded and planned; null if all of its samples are bad.
  std::function<Result<std::shared_ptr<SealedStep>>(std::uint32_t epoch, std::uint32_t step,
                                                    const std::stop_token& stop)>
      seal;
  /// Return the number of bad samples so far, and the last of them.
  std::function<std::uint64_t()> bad;
  std::function<std::optional<BadSample>()> last_bad;
};

/// The planning thread's loop: seals the steps of a job, epoch by epoch, and adds them to the job's
/// queue as far ahead of training as the job has room for.
class PlanningLoop {
 public:
  struct Options {
    std::uint64_t epochs = 1;      ///< Number of epochs; 0: no end.
    std::string bad_samples_file;  ///< Named in the error if all samples are bad; empty: none.
  };
  PlanningLoop(PlanningInput input, Options options, CurrentJob& job, TrainingMeter& meter,
               LogSink log);

  /// Plans until the last epoch has ended, `stop` is requested or another job has begun. Another
  /// error becomes the job's failure: see CurrentJob::fail. One call at a time.
  void run(const JobTerms& job, const std::stop_token& stop);

  /// Fills in the counters of what was planned since the start. Thread-safe.
  void add_to(NodeSummary& summary) const ISOCOST_EXCLUDES(mutex_);

 private:
  Status plan_epochs(const JobTerms& job, const std::stop_token& stop);
  Status plan_epoch(const JobTerms& job, std::uint32_t epoch, const std::stop_token& stop);
  // Counts a step, also in its epoch's `end`, and hands it to delivery. Null is no step.
  Status push(const JobTerms& job, std::shared_ptr<SealedStep> step, EpochEnd& end);
  Status push(const JobTerms& job, const EpochEnd& end) ISOCOST_EXCLUDES(mutex_);
  Error all_bad(std::uint32_t epoch) const;
  void count(const SealedStep& step) ISOCOST_EXCLUDES(mutex_);
  void warn_over_limit(const SealedStep& step) const;

  const PlanningInput input_;
  const Options options_;
  CurrentJob& job_;
  TrainingMeter& meter_;
  const LogSink log_;

  struct Totals {
    std::uint64_t epochs = 0;
    std::uint64_t steps = 0;
    std::uint64_t planned = 0;
    std::uint64_t repeated = 0;
    std::uint64_t over_limit = 0;
    std::uint64_t dropped = 0;
    double plan_seconds_mean = 0;
    double gap_mean = 0;
  };
  mutable Mutex mutex_;
  Totals totals_ ISOCOST_GUARDED_BY(mutex_);
  Totals before_job_ ISOCOST_GUARDED_BY(mutex_);  // the totals when the job began
};

}  // namespace isocost
