#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A client's delivery by shared memory through all its sessions with a node: attaches in each, and
/// tells when another one is needed because the Unix socket was lost. Single-thread.
class BlockSessions {
 public:
  /// Begins with a new session; `patience` is how long after a loss another is asked for. What has
  /// not been received of the last one never is. A socket that cannot be had now counts as lost.
  /// Returns why this client receives over ZeroMQ for good, where that is so and was not told
  /// before.
  std::optional<std::string> attach(const SharedMemoryOffer& offer,
                                    std::chrono::milliseconds patience);

  /// Returns the next microbatch, or nothing if none has come or the socket is lost. Errors:
  /// kCorrupt.
  Result<std::optional<BlockReceiver::Delivered>> receive();

  /// Readable when `receive` has something to do; -1 without a socket.
  int descriptor() const { return receiver_ == nullptr ? -1 : receiver_->descriptor(); }

  /// Returns true once the socket has been lost for as long as `patience`: the node has closed it,
  /// as that of a client that was stopped for long, or the system lacked something for it. The node
  /// sends again what is missing when the client joins again. Once for each loss.
  bool needs_session();

 private:
  void lose(std::string why);

  using Clock = std::chrono::steady_clock;

  std::unique_ptr<BlockReceiver> receiver_;  // null: the node shares no memory with this process
  std::chrono::milliseconds patience_{0};
  std::optional<Clock::time_point> join_again_;  // when; empty: nothing was lost
  int losses_ = 0;                               // since the last microbatch
  std::string why_not_;                          // to be told at the next `attach`
};

}  // namespace isocost
