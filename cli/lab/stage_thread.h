#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/schedule.h"
#include "base/result.h"
#include "cli/lab/barrier.h"
#include "cli/lab/replica_timeline.h"
#include "cli/lab/shared_pipeline.h"
#include "cli/lab/stage_clock.h"
#include "cli/lab/stage_microbatch.h"
#include "trainer_adapter/client.h"

namespace isocost::cli {

/// Identifies a stage of a replica, of the encoder or of the LLM.
struct StageId {
  bool encoder = false;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  std::size_t number = 0;  ///< Index among all stages of the job.
};

/// One stage of a replica: takes its microbatches from the node, and waits for the time of its
/// passes. train() runs on a thread of its own.
class StageThread {
 public:
  StageThread(const StageId& id, SharedPipeline& shared);

  /// Trains all steps of the job. Errors: those of Client; kCancelled; kDeadlineExceeded if another
  /// stage does not come; kInvalidArgument if the node delivers another number of microbatches than
  /// the model has.
  Status train();

 private:
  bool is_first() const { return id_.stage == 0; }
  bool is_last() const { return id_.stage + 1 == module_.stages; }
  // Returns whether a microbatch needs passes: an encoder's microbatch without media does not.
  bool has_work(const StageMicrobatch& microbatch) const {
    return !id_.encoder || !microbatch.routes.empty();
  }
  EmulatedTime deadline() const;

  Status run_step(std::size_t step);
  Status receive(std::size_t step);
  Result<std::vector<Pass>> program() const;
  Status run_pass(const Pass& pass);
  void await_weights(double pass_s);
  double pass_seconds(PassKind kind, const SampleCost& load) const;

  Status await_inputs(const Pass& pass);
  Status await_neighbour(const Pass& pass);
  Status await_rows(const StageMicrobatch& microbatch);
  Status await_gradients(std::uint32_t slot);
  Result<EmulatedTime> end_of(ReplicaTimeline& timeline, std::size_t stage, PassKind kind,
                              std::uint32_t slot) const;
  void await_transfer(EmulatedTime sent, double bytes);
  Status join(Barrier& barrier);
  Error stopped_waiting(const char* what) const;

  const StageId id_;
  SharedPipeline& shared_;
  const EmulatedJob& job_;
  const ModuleStages& module_;  // the module that this stage belongs to
  SharedModule& own_;
  StageClock clock_;
  std::unique_ptr<Client> client_;
  std::vector<StageMicrobatch> microbatches_;  // of this step, in the order of their slots
  std::size_t expected_ = 0;                   // microbatches in this step, by the node
  EmulatedTime began_{};                       // when this step began
  std::optional<double> last_pass_s_;          // of this step, in modelled seconds
};

}  // namespace isocost::cli
