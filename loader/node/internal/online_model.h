#pragma once

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

/// The cost model of a running node. Measurements come from a thread that must never wait; they are
/// learned from when the next step is planned. Internally synchronised.
class OnlineModel {
 public:
  OnlineModel(const CostProfile& profile, CostModel::Options options, LogSink log);

  /// Takes a measurement down, with the step that its shape is a view into. False where a flood of
  /// them waits already: it is dropped. Never waits for the model. One of a step that was planned
  /// by a profile before the last `adopt` says nothing about this one, and is let go.
  bool report(const Measurement& measurement, std::shared_ptr<const SealedStep> step);

  /// Learns from what was reported, then plans with what it knows now.
  Result<StepPlan> plan(const std::function<Result<StepPlan>(const CostModel&)>& plan);

  /// See CostModel. What comes of steps that were planned before is let go.
  void begin_job();

  /// Goes on from another profile (JSON), with nothing learned. Errors: those of
  /// CostProfile::parse; the model is as before then.
  Status adopt(std::string profile);

  /// What was learned so far, everything reported included.
  struct Progress {
    CorrectionStatus correction;
    ModuleSeconds mape{};  ///< NaN where nothing was measured.
    std::int64_t measurements = 0;
    std::int64_t rejected = 0;
    std::uint32_t profiles = 0;  ///< Adopted.
  };
  Progress progress();

  /// Nothing was measured here: what others learned is news.
  bool untaught();
  /// CostModel's state, and the profile that it rests on where one was adopted; at most
  /// kMaxCostModelStateBytes. Empty where nothing was measured or restored.
  std::string save_state();
  /// Errors: those of CostModel, and of the profile; the model is as before then.
  Status restore_state(std::string_view state);

 private:
  struct Observation {
    Measurement measurement;
    std::shared_ptr<const SealedStep> step;
  };
  // With model_mutex_ held:
  void observe_reported();
  void replace(CostModel model, std::string profile);

  const CostModel::Options options_;
  const LogSink log_;
  const CostProfile profile_;       // that it starts from
  const std::string started_from_;  // its fingerprint
  Mutex model_mutex_;  // guards model_ to rejected_before_; taken before reported_mutex_
  CostModel model_;
  std::string adopted_;  // JSON of the profile in use; empty: the one that it started from
  bool restored_ = false;
  std::uint32_t profiles_ = 0;
  std::uint32_t generation_ = 0;      // of models and jobs: steps of another are let go
  std::int64_t measured_before_ = 0;  // by models before this one
  std::int64_t rejected_before_ = 0;
  Mutex reported_mutex_;  // guards reported_, and is held for moments only
  std::vector<Observation> reported_;
};

}  // namespace isocost
