#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/node/internal/sealed_step.h"

namespace isocost {

/// The cost model of a running node. Trainers' measurements are queued by a thread that must not
/// wait, and the model learns from them when the next step is planned. `queue_measurement`,
/// `profile_json` and `progress` may be called from any thread, and never wait for a plan. The
/// other functions belong to one thread at a time, the planning thread while there is one.
class OnlineModel {
 public:
  OnlineModel(const CostProfile& profile, CostModel::Options options, LogSink log);

  /// Queues a measurement, with the step that its shape is a view into. Returns false, and drops
  /// it, where too many are queued already. A measurement of a step that was planned before the
  /// last `adopt`, `restore_state` or `begin_job` does not apply to the present model and is
  /// ignored.
  bool queue_measurement(const Measurement& measurement, std::shared_ptr<const SealedStep> step)
      ISOCOST_EXCLUDES(queue_mutex_);

  /// Queues the word that steps before this one are complete: CostModel::pass.
  void queue_pass(std::uint64_t complete) ISOCOST_EXCLUDES(queue_mutex_);

  /// Learns from queued measurements, then calls `plan` with the model, without a lock. Logs
  /// refused measurements and model drift.
  Result<StepPlan> plan(const std::function<Result<StepPlan>(const CostModel&)>& plan)
      ISOCOST_EXCLUDES(model_mutex_);

  /// See CostModel::begin_job.
  void begin_job() ISOCOST_EXCLUDES(model_mutex_);

  /// Adopts another model profile (JSON), and forgets what was learned. Errors: those of
  /// CostProfile::parse; the model is unchanged then.
  Status adopt(std::string profile) ISOCOST_EXCLUDES(model_mutex_);

  struct Progress {
    CorrectionStatus correction;
    ModuleSeconds prediction_error_ratio{};  ///< NaN if nothing was measured.
    std::int64_t measurements = 0;
    std::int64_t rejected = 0;
    std::uint32_t profiles = 0;  ///< Model profiles adopted.
  };
  /// Returns what was learned so far: while a step is being planned, up to its start; otherwise
  /// from all queued measurements, which it learns from first.
  Progress progress() ISOCOST_EXCLUDES(model_mutex_);

  /// Returns the model profile in use. Belongs to the planning thread.
  CostProfile profile() ISOCOST_EXCLUDES(model_mutex_);
  /// Returns the same as JSON. May be called from any thread.
  std::string profile_json() ISOCOST_EXCLUDES(model_mutex_);

  /// Returns whether this node has measured anything itself. Learns from all queued measurements
  /// first.
  bool has_measurements() ISOCOST_EXCLUDES(model_mutex_);
  /// Returns CostModel's state and, where a model profile was adopted, that profile; at most
  /// kMaxCostModelStateBytes. Empty if nothing was measured or restored.
  std::string save_state() ISOCOST_EXCLUDES(model_mutex_);
  /// Restores a saved state. Errors: kInvalidArgument for the state of another model profile;
  /// kUnsupported for a state of another version; those of CostModel and CostProfile::parse. The
  /// model is unchanged then.
  Status restore_state(std::string_view state) ISOCOST_EXCLUDES(model_mutex_);

 private:
  struct Observation {
    Measurement measurement;
    std::shared_ptr<const SealedStep> step;  // null: only `measurement.step` counts, see pass()
  };
  struct Message {
    LogLevel level;
    std::string text;
  };
  using Messages = std::vector<Message>;  // logged after the lock is released

  void observe_queued(Messages& messages) ISOCOST_REQUIRES(model_mutex_);
  void describe_drift(Messages& messages) ISOCOST_REQUIRES(model_mutex_);
  void replace(CostModel model, std::string profile, Messages& messages)
      ISOCOST_REQUIRES(model_mutex_);
  std::int64_t measurements() const ISOCOST_REQUIRES(model_mutex_);
  Progress progress_of_model() const ISOCOST_REQUIRES(model_mutex_);
  void log_all(const Messages& messages) const;

  const CostModel::Options options_;
  const LogSink log_;
  const CostProfile profile_;             // the starting profile
  const std::string profile_identifier_;  // its fingerprint

  Mutex model_mutex_;  // taken before queue_mutex_
  // Null while `plan` has it.
  std::unique_ptr<CostModel> model_ ISOCOST_GUARDED_BY(model_mutex_);
  Progress before_plan_
      ISOCOST_GUARDED_BY(model_mutex_);  // progress as of the plan that has the model
  // JSON of the profile in use; empty: the starting profile.
  std::string adopted_ ISOCOST_GUARDED_BY(model_mutex_);
  bool restored_ ISOCOST_GUARDED_BY(model_mutex_) = false;
  std::uint32_t profiles_ ISOCOST_GUARDED_BY(model_mutex_) = 0;
  // Grows with each model and job: measurements of steps of an earlier generation are ignored.
  std::uint32_t generation_ ISOCOST_GUARDED_BY(model_mutex_) = 0;
  std::array<std::uint64_t, kModules> drifts_logged_ ISOCOST_GUARDED_BY(model_mutex_){};
  // Counts of the models before this one.
  std::int64_t measured_before_ ISOCOST_GUARDED_BY(model_mutex_) = 0;
  std::int64_t rejected_before_ ISOCOST_GUARDED_BY(model_mutex_) = 0;

  Mutex queue_mutex_;  // held for moments only
  std::vector<Observation> queue_ ISOCOST_GUARDED_BY(queue_mutex_);
};

}  // namespace isocost
