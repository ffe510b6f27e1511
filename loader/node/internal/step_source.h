#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/node/internal/node_parts.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/internal/reprofiling.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/node/internal/step_decoder.h"
#include "loader/node/node_options.h"
#include "loader/plan/batch_composer.h"

namespace isocost {

/// Where a node's steps come from: names a batch, has it decoded, plans it with what the cost model
/// knows by then, and keeps what that has learned. Of one thread, the planning one, but for what is
/// said otherwise.
class StepSource {
 public:
  /// `parts` must outlive it.
  explicit StepSource(const NodeParts& parts);

  /// What a client's saved state brings (StartPoint::learned) is where the next step goes on from,
  /// unless this node has measured something by then: that is newer. What cannot be used is named
  /// in the log. From any thread.
  void offer(std::string cost_model_state);

  /// The next step is another job's first.
  void begin_job() { model_.begin_job(); }

  /// What is to be sealed, and for whom.
  struct Request {
    std::uint32_t epoch = 0;
    std::uint32_t step = 0;
    const NodeOptions& options;  ///< With the job's ranks.
    StepDecoder& decoder;
    std::stop_token stop;
  };
  /// The step, decoded and planned; null where every sample of it was bad, and is listed. Keeps
  /// what was learned, now and then, in `correction_file` and in the step. Errors: those of
  /// BatchComposer, StepDecoder and plan_step.
  Result<std::shared_ptr<SealedStep>> seal(const Request& request);

  /// Writes `correction_file`, if there is one. A file that cannot be written is a warning. While
  /// no other thread seals.
  void keep();

  /// See BatchComposer. From any thread.
  std::uint64_t fingerprint() const { return fingerprint_; }
  bool continues(std::uint64_t other, std::uint64_t step) const;
  /// Measurements come in, and figures go out, on any thread.
  OnlineModel& model() { return model_; }
  /// From any thread: a profile that a trainer has measured again.
  void offer(ProfileReceived came) { reprofiling_.offer(std::move(came)); }

 private:
  void take_offered();

  const NodeParts& parts_;
  BatchComposer composer_;
  const std::uint64_t fingerprint_;
  OnlineModel& model_;
  Reprofiling reprofiling_;
  std::uint64_t sealed_ = 0;  // steps
  Mutex mutex_;               // guards offered_
  std::string offered_;
  std::string taken_;  // what was taken last of what was offered
};

}  // namespace isocost
