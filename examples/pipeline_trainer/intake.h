#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainer_adapter/torch/loader.h"

namespace isocost {

/// A sample's training step and id.
using SampleSeen = std::pair<std::uint32_t, std::uint64_t>;

/// What came from the node so far.
struct IntakeTally {
  std::int64_t tensor_bytes = 0;
  std::int64_t routing_bytes = 0;       ///< Of the routing tables, as they travel.
  std::int64_t decoupled = 0;           ///< Microbatches joined to more than one of the other side.
  std::vector<SampleSeen> samples;      ///< Those with weight.
  std::vector<SampleSeen> with_routes;  ///< Of them those that the encoder has to do with.
};

struct IntakeOptions {
  std::string endpoint;
  std::int32_t receiver = 0;
  std::int32_t receivers = 1;
  std::uint64_t layout = 0;  ///< Its fingerprint; 0: none.
  StartPoint start;
  std::chrono::milliseconds timeout{60'000};
};

/// The loader's end of a process: microbatches in order, each to be looked at before it is taken.
/// Single-thread.
class Intake {
 public:
  static Result<Intake> connect(const IntakeOptions& options);

  /// The header of what `take` gives next. Waits for it; valid until then. Errors: those of
  /// Client::next; kDeadlineExceeded where nothing came in the time-out; kNotFound after the last.
  Result<const MicrobatchHeader*> peek();
  Result<TorchMicrobatch> take();
  /// Sends measured seconds (see TorchLoader::report).
  Status report(const TorchMicrobatch& microbatch, const std::array<double, kModules>& seconds,
                double forward_s);
  /// After the last microbatch: takes the end of the epoch, and leaves. Returns the number of
  /// samples that the node planned for the steps of this run.
  Result<std::uint64_t> finish();

  const IntakeTally& tally() const { return tally_; }
  /// Blocked for the node since the last call.
  double waited_s();
  /// What belongs in a state that is saved before this step.
  StartPoint start_at(std::uint32_t step) {
    return {loader_.client().welcome().start.cursor, 0, step, cost_model_state_};
  }

 private:
  Intake(TorchLoader loader, std::chrono::milliseconds timeout)
      : loader_(std::move(loader)), timeout_(timeout) {}
  Result<std::optional<TorchMicrobatch>> next();
  void count(const TorchMicrobatch& microbatch);

  TorchLoader loader_;
  std::chrono::milliseconds timeout_;
  std::optional<TorchMicrobatch> ahead_;
  IntakeTally tally_;
  std::string cost_model_state_;  // the cost model's, as it came last
  double waited_s_ = 0;
};

}  // namespace isocost
