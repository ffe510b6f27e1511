#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/torch/torch_microbatch.h"

namespace isocost {

/// A sample's training step and id.
using SampleSeen = std::pair<std::uint32_t, std::uint64_t>;

/// Counts of the samples and bytes that the node has sent.
struct StreamTally {
  std::int64_t tensor_bytes = 0;
  std::int64_t routing_bytes = 0;   ///< Size of the routing tables on the wire.
  std::int64_t decoupled = 0;       ///< Microbatches with routes to several of the other module.
  std::vector<SampleSeen> samples;  ///< Samples with weight.
  std::vector<SampleSeen> with_routes;  ///< The seen samples that have encoder output.
};

struct StreamOptions {
  std::string endpoint;
  std::int32_t receiver = 0;
  std::int32_t receivers = 1;
  std::uint64_t layout = 0;  ///< Fingerprint of the layout; 0: none.
  StartPoint start;
  std::chrono::milliseconds timeout{60'000};
};

/// The microbatches that the node sends to this process, in order. The header of the next one can
/// be read before the microbatch is taken. Single-thread.
class MicrobatchStream {
 public:
  static Result<MicrobatchStream> connect(const StreamOptions& options);

  /// Returns the header of the microbatch that `take` returns next; valid until then. Blocks until
  /// it has arrived. Errors: those of Client::next; kDeadlineExceeded after the time-out; kNotFound
  /// after the last microbatch.
  Result<const MicrobatchHeader*> peek();
  /// Returns the next microbatch. Blocks and fails as `peek` does.
  Result<TorchMicrobatch> take();
  /// Sends measured seconds (see Client::report).
  Status report(const TorchMicrobatch& microbatch, const std::array<double, kModules>& seconds,
                double forward_s);
  /// Receives the end of the epoch after the last microbatch, and disconnects. Returns the number
  /// of samples that the node planned for the steps of this run.
  Result<std::uint64_t> finish();

  const StreamTally& tally() const { return tally_; }
  /// Returns the seconds spent waiting for the node since the last call.
  double waited_s();
  /// Returns the part of a saved state from which the node resumes at this step.
  StartPoint start_at(std::uint32_t step) {
    StartPoint start = client_->welcome().start;
    start.step = step;
    start.cost_model_state = cost_model_state_;
    return start;
  }

 private:
  MicrobatchStream(std::unique_ptr<Client> client, std::chrono::milliseconds timeout)
      : client_(std::move(client)), timeout_(timeout) {}
  Result<std::optional<TorchMicrobatch>> next();
  void count(const TorchMicrobatch& microbatch);

  std::unique_ptr<Client> client_;
  std::chrono::milliseconds timeout_;
  std::optional<TorchMicrobatch> ahead_;
  StreamTally tally_;
  std::string cost_model_state_;  // the newest that the node has sent
  double waited_s_ = 0;
};

}  // namespace isocost
