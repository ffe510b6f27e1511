#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/protocol/rank_actions.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A rank's delivery by shared memory across all its sessions with a node: whether it attaches in a
/// session, and when another one is needed because the Unix socket was lost. Single-thread.
class BlockLosses {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Begins a session, in which microbatches of the last one that were not received never come.
  /// After a loss of the socket, another session is asked for once `patience` has passed. Returns
  /// whether the rank attaches. If it receives over ZeroMQ for good, it logs why, once.
  bool begin_session(const SharedMemoryOffer& offer, std::chrono::milliseconds patience,
                     RankActions& actions);
  /// Takes the result of attaching. A socket that cannot be connected now counts as lost.
  void attach(Time now, const Status& attached, RankActions& actions);
  /// A microbatch came in a block.
  void receive() { losses_ = 0; }
  /// The socket is lost. It may have been closed because the node begins another session, whose
  /// welcome is on its way; the rank then attaches again.
  void lose(Time now, std::string why);
  /// Returns true, once for each loss, when the socket has been lost for `patience`: the node has
  /// closed it, for example because the client was stopped for long, or the system lacked something
  /// for it. When the rank joins again, the node sends what is missing.
  bool needs_session(Time now);

 private:
  void tell_why_not(RankActions& actions);

  std::chrono::milliseconds patience_{0};
  std::optional<Time> join_again_;  // time to join again; empty: nothing was lost
  int losses_ = 0;                  // number since the last microbatch
  std::string why_not_;             // logged when the rank attaches no more
};

}  // namespace isocost
