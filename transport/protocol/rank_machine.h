#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/protocol/rank_actions.h"
#include "transport/protocol/rank_options.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {

/// A rank's side of the protocol, without a socket, a clock, a lock or a thread: decides what is
/// said to the node when, in which order microbatches are handed over, and which of them are
/// acknowledged. Its owner calls an event when something has happened, and then performs the
/// appended actions. Their order counts among messages, among hand-overs with Fail and Recover, and
/// among all others. docs/protocol.md has the states, events, actions and time-outs. Times are of
/// one monotonic clock. Single-thread.
class RankMachine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RankMachine(const RankOptions& options, Time now);
  ~RankMachine();
  RankMachine(const RankMachine&) = delete;
  RankMachine& operator=(const RankMachine&) = delete;

  // Events of the connection.

  /// The connection came up, for the first time or again, or JoinAgain is performed. Returns the
  /// hello, which goes before all other messages. Credit that waits to be sent is void.
  Hello hello(Time now);
  /// A message of the node came. Ignores those that are not for a rank's machine. Fragments need
  /// not be told: `assembled` says what they complete.
  void receive(const Message& message, RankActions& actions);
  /// Time has passed. `silence` is the time since the last message of the node, without time in
  /// which the process did not run.
  void tick(Time now, std::chrono::nanoseconds silence, RankActions& actions);
  /// Answers ExplainUnreached. `why` is empty if there is no reason.
  void tell_unreached(const std::string& why, RankActions& actions);
  /// The owner cannot go on, for example because a message could not be read. The first error
  /// counts, unless it was the node's silence.
  void fail(const Error& error, RankActions& actions);

  // Events of assembly and shared memory.

  /// All parts of an announced microbatch have arrived. `result` is the error of putting them
  /// together, if there was one; the rank fails with it when the microbatch's turn has come.
  void assembled(const Position& position, const Status& result, RankActions& actions);
  /// Answers AttachMemoryOffered. kUnavailable: a later try may succeed.
  void attached(Time now, const Status& result, RankActions& actions);
  /// A microbatch came in a block. Returns what becomes of the block.
  BlockUse receive_block(const Position& position, RankActions& actions);
  /// No more blocks come in this session: kUnavailable if the socket is lost, which another session
  /// mends; the rank fails with any other error.
  void lose_memory(Time now, const Error& error, RankActions& actions);

  // Events of the training loop. None sends anything after `close`.

  /// The loop asks for the next microbatch. Ends the use of the last one, unless the caller says
  /// itself where the loop is (RankOptions::prepares_ahead).
  void ask(RankActions& actions);
  /// The loop has waited for it. Not counted of a caller that says itself where the loop is.
  void end_wait(std::chrono::nanoseconds waited);
  /// The loop took the first microbatch that was handed over, or the first end of epoch.
  void take(const MicrobatchHeader& header, RankActions& actions);
  void take(const EpochEnd& end);
  /// The loop begins a microbatch that was prepared for it, for which it waited.
  void use(const Position& position, std::chrono::nanoseconds waited, RankActions& actions);
  /// The loop continues. Acknowledges what is trained.
  void acknowledge(RankActions& actions);
  /// The loop says that this microbatch and all before it are trained. Errors: kInvalidArgument for
  /// one that it has not taken.
  Status train(const Position& position);
  /// The loop takes back what it said of this microbatch last, or its use.
  void revoke(const Position& position);
  /// The loop reports on a microbatch, which is then trained unless the caller says itself where
  /// the loop is. Errors: kInvalidArgument for one that it has not taken, or with work of which
  /// nothing was measured; kCancelled after `close`.
  Status report(const Report& report, Time now, RankActions& actions);
  /// The report has left. The time that sending it took is part of the next one's.
  void end_report(Time now);
  /// The loop answers the last microbatch that asked for a profile. Errors: kCancelled after
  /// `close`.
  Status send_profile(ProfileUpdate profile, RankActions& actions);
  /// The loop leaves, after acknowledging what is trained if `acknowledge_last`. Idempotent.
  void close(bool acknowledge_last, RankActions& actions);

  // State.

  /// Returns the limit of microbatches that are ready or on their way.
  std::uint32_t prefetch() const;
  /// Returns whether nothing more is handed over: the last epoch has ended, or the rank has failed.
  bool is_over() const;
  bool is_closed() const { return closed_; }
  /// Returns the error of a rank whose node has not answered in time. `why_unreached`: as in
  /// `tell_unreached`.
  Error unanswered(const std::string& why_unreached) const;

 private:
  struct Parts;

  void welcome(const Welcome& welcome, RankActions& actions);
  void begin_session(RankActions& actions);
  void announce(const Position& position, RankActions& actions);
  void announce(const EpochEnd& end, RankActions& actions);
  void hand_over(RankActions& actions);
  void fail(const Failure& failure, RankActions& actions);
  void fail(const Error& error, const std::optional<Position>& resume_point, RankActions& actions);
  void spend_credit(RankActions& actions);
  void grant_credit(RankActions& actions);

  const RankOptions options_;
  const std::unique_ptr<Parts> parts_;
  Welcome welcome_;  // the last one
  bool failed_ = false;
  bool closed_ = false;
  std::uint32_t ready_ = 0;  // microbatches that were handed over and not taken
};

}  // namespace isocost
