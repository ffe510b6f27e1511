#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "transport/protocol/rank_actions.h"
#include "transport/protocol/rank_machine.h"
#include "transport/wire/messages.h"

namespace isocost {

class Connection;

/// Hands microbatches to the training loop, which waits for them here, and holds the lock under
/// which the rank's machine runs. The machine decides; its messages are queued on the connection
/// under the lock, in the order of its decisions. Internally synchronised.
class HandOut {
 public:
  /// `connection` receives what the machine sends.
  HandOut(const ClientOptions& options, Connection& connection);

  /// Returns the limit of microbatches that are ready or on their way.
  std::uint32_t prefetch() const;

  // For the connection's thread.

  /// Tells the machine of an event: `event(machine, actions)` is called under the lock. Performs
  /// what concerns messages and the loop, and returns the other actions, which the caller performs
  /// without the lock.
  template <typename Event>
  RankActions apply(Event event) {
    RankActions others;
    bool wakes = false;
    {
      const MutexLock lock(mutex_);
      event(machine_, actions_);
      wakes = perform();
      if (!actions_.empty()) others.swap(actions_);
    }
    if (wakes) changed_.notify_all();  // without the mutex, which the trainer needs to continue
    return others;
  }
  /// Does the same with a microbatch that is complete, or with the error of its assembly.
  RankActions complete(const Position& position, Result<Microbatch>&& assembled);
  /// Returns the error of a client whose node has not answered in time.
  Error unanswered(const std::string& why_unreached) const;

  // For the trainer's threads, as the functions of Client with the same names.

  Result<std::optional<Microbatch>> next(const std::stop_token& stop);
  bool wait(std::chrono::milliseconds limit);
  void use(const Position& position, std::chrono::nanoseconds waited);
  void acknowledge();
  Status trained(const Position& position);
  void revoke(const Position& position);
  const std::optional<EpochEnd>& epoch_end() const { return epoch_end_; }
  std::optional<Position> resume_point() const;
  Status send(const Report& report);
  Status send(const ProfileUpdate& profile);

  /// Ends waits, sends nothing more for the trainer, and tells the node that the client leaves.
  /// Acknowledges what is trained first if `acknowledge_last`. Idempotent.
  void close(bool acknowledge_last);

 private:
  using Clock = std::chrono::steady_clock;
  using Ready = std::variant<Microbatch, EpochEnd>;

  bool is_ready() const ISOCOST_REQUIRES(mutex_);
  void ask() ISOCOST_REQUIRES(mutex_);
  bool perform() ISOCOST_REQUIRES(mutex_);
  void hand_over(const HandOver& handed) ISOCOST_REQUIRES(mutex_);
  std::optional<Microbatch> take_first(Clock::time_point asked) ISOCOST_REQUIRES(mutex_);

  const bool receives_;  // whether the client has a rank
  Connection& connection_;
  std::optional<EpochEnd> epoch_end_;    // used by the thread that calls `next` only
  std::atomic<bool> asked_for_ = false;  // whether a thread is in `next` or `wait`

  mutable Mutex mutex_;
  ConditionVariable changed_;
  RankMachine machine_ ISOCOST_GUARDED_BY(mutex_);
  RankActions actions_ ISOCOST_GUARDED_BY(mutex_);  // of one event; empty between events
  // Complete, but not handed over, because one that was announced before is not.
  std::vector<Microbatch> early_ ISOCOST_GUARDED_BY(mutex_);
  std::deque<Ready> ready_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> resume_point_ ISOCOST_GUARDED_BY(mutex_);  // said with the failure
};

}  // namespace isocost
