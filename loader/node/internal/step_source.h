#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "costmodel/measured_steps.h"
#include "loader/node/decoding/step_decoder.h"
#include "loader/node/internal/batch_sequence.h"
#include "loader/node/internal/job_order.h"
#include "loader/node/internal/layout_watch.h"
#include "loader/node/internal/node_parts.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/internal/reprofiling.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/plan/batch_composer.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/planner.h"

namespace isocost {

/// Makes a node's steps: composes a batch, has it decoded, plans it with the cost model's present
/// state, and saves what the model has learned. Belongs to the planning thread, except where a
/// function says otherwise.
class StepSource {
 public:
  explicit StepSource(const NodeParts& parts);

  /// Stores the cost model's state that a client brings from a saved state. The next step is
  /// planned with it, unless this node has measured something by then, which is newer. A state that
  /// cannot be used is logged. Thread-safe.
  void receive_state(std::string cost_model_state) ISOCOST_EXCLUDES(mutex_);
  /// Stores a model profile that a trainer has measured. Thread-safe.
  void receive_profile(ProfileReceived received) { reprofiling_.receive(std::move(received)); }
  /// Returns what came of such profiles. Thread-safe.
  Reprofiling::Counts reprofiles() const { return reprofiling_.counts(); }

  /// See LayoutWatch::gain. Thread-safe.
  std::optional<double> layout_gain() const { return layout_watch_.gain(); }

  /// Draws by another order from the next step on.
  void draw_by(std::shared_ptr<const JobOrder> order);
  /// Returns the order that is drawn by: at first that of a job that begins anew.
  const JobOrder& order() const { return *order_; }
  /// Begins the steps of another job, with this number of data-parallel ranks.
  void begin_job(std::int64_t ranks);

  /// Returns the samples of a step, as they are drawn. Errors: those of BatchComposer::batch.
  Result<std::span<const SampleId>> samples(std::uint64_t epoch, std::uint64_t step) {
    return batches_.move_to(epoch, step);
  }
  /// Plans good samples with the cost model's present state. Errors: those of plan_step.
  Result<StepPlan> plan(std::span<const StepSample> samples);

  struct Request {
    std::uint32_t epoch = 0;
    std::uint32_t step = 0;
    StepDecoder& decoder;
    std::stop_token stop;
  };
  /// Returns the step, decoded and planned; null if every sample of it is bad. Samples of up to
  /// `plan_ahead` following steps may be begun meanwhile: see StepDecoder. Every few steps
  /// the cost model's state is saved in `correction_file` and in the step. Blocks while the samples
  /// are decoded. Errors: those of BatchComposer, StepDecoder and plan_step.
  Result<std::shared_ptr<SealedStep>> seal(const Request& request);

  /// Writes `correction_file`, if there is one. A file that cannot be written is a warning. Must
  /// not be called while another thread seals.
  void save_correction();

  /// Returns BatchComposer's fingerprint. Thread-safe.
  std::uint64_t fingerprint() const { return fingerprint_; }
  bool continues(std::uint64_t other, std::uint64_t step) const;

 private:
  void restore_received() ISOCOST_EXCLUDES(mutex_);
  void make_dummies();
  void note_dummies(const SealedStep& sealed);
  void note_ended(std::uint32_t step);
  Result<StepPlan> plan_with(const CostModel& model, std::span<const StepSample> samples) const;
  PlanInput plan_input(std::span<const StepSample> samples) const;
  std::vector<SampleOfSource> sources_of(std::span<const StepSample> samples,
                                         const CostModel& model) const;

  const NodeParts& parts_;
  std::shared_ptr<const JobOrder> order_;
  PlanOptions plan_options_;  // with the job's number of ranks
  BatchComposer composer_;
  BatchSequence batches_;
  const std::uint64_t fingerprint_;
  OnlineModel& model_;
  Reprofiling reprofiling_;
  LayoutWatch layout_watch_;
  std::uint64_t steps_sealed_ = 0;
  MeasuredSteps measured_steps_;
  std::vector<StepSample> dummies_;  // see Recipe::dummy; none if no plan needs them
  ModalitySet noted_dummies_ = 0;    // modalities whose dummies the log has announced
  std::string restored_;             // the last state that was received and tried
  Mutex mutex_;
  std::string received_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
