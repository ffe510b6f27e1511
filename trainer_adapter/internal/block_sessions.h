#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A client's delivery by shared memory across all its sessions with a node: attaches in each
/// session, and says when another one is needed because the Unix socket was lost. Single-thread.
class BlockSessions {
 public:
  /// Attaches for a new session, in which microbatches of the last one that were not received never
  /// come. After a loss of the socket, another session is asked for once `patience` has passed; a
  /// socket that cannot be connected now counts as lost. Returns, once, why this client receives
  /// over ZeroMQ for good, if that is so.
  std::optional<std::string> attach(const SharedMemoryOffer& offer,
                                    std::chrono::milliseconds patience);

  /// Returns the next microbatch, or nothing if none has come or the socket is lost. Errors:
  /// kCorrupt.
  Result<std::optional<BlockReceiver::Delivered>> receive();

  /// Returns a descriptor that is readable when `receive` has something to do; -1 without a socket.
  int descriptor() const { return receiver_ == nullptr ? -1 : receiver_->descriptor(); }

  /// Returns true, once for each loss, when the socket has been lost for `patience`: the node has
  /// closed it, for example because the client was stopped for long, or the system lacked something
  /// for it. When the client joins again, the node sends what is missing.
  bool needs_session();

 private:
  void lose(std::string why);

  using Clock = std::chrono::steady_clock;

  std::unique_ptr<BlockReceiver> receiver_;  // null: the node shares no memory with this process
  std::chrono::milliseconds patience_{0};
  std::optional<Clock::time_point> join_again_;  // time to join again; empty: nothing was lost
  int losses_ = 0;                               // number since the last microbatch
  std::string why_not_;                          // returned by the next `attach`
};

}  // namespace isocost
