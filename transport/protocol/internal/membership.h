#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/protocol/rank_actions.h"
#include "transport/protocol/rank_options.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A rank's membership in a job: what its hello says and when it is due again, what the node's
/// answers mean, and what is said and done when the node is silent. Single-thread.
class Membership {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `began`: when the rank began to look for its node.
  Membership(const RankOptions& options, Time began) : options_(options), began_(began) {}

  /// Returns the hello that is sent now. `received`: the last microbatch that is complete here.
  Hello hello(Time now, const std::optional<Position>& received);
  /// Returns whether hello is due again: nothing came for two heartbeats, because the node may then
  /// consider this client lost. True once for each hello.
  bool needs_hello(Time now, std::chrono::nanoseconds silence);

  /// Checks that a welcome is of the node process of the first one. Errors: kUnavailable.
  Status check_process(const Welcome& welcome) const;
  /// Takes a welcome of the same node process, and answers the first one.
  void take(const Welcome& welcome, RankActions& actions);
  /// Takes a refusal. Returns the error that the rank fails with, unless hello is to be sent again.
  Status take(const Refusal& refusal, RankActions& actions);
  /// Ends the wait for the first welcome with an error, unless it is over.
  void answer(const Error& error, RankActions& actions);
  /// Returns the error of a rank whose node has not answered in time.
  Error unanswered(const std::string& why_unreached) const;

  /// Returns the error of a node that has been silent for its time-out. Asks for an explanation of
  /// a shorter silence that is worth a word. Call it while something is expected of the node.
  Status check_silence(std::chrono::nanoseconds silence, RankActions& actions);
  /// Returns, once, whether `check_silence` has returned an error since the last call.
  bool take_silence();
  /// Asks for an explanation if no node was reached for long.
  void check_unreached(Time now, RankActions& actions);
  /// Logs what was asked for, with the reason why no node was reached; empty if there is none.
  void explain(const std::string& why, RankActions& actions);

 private:
  void explain_silence(std::chrono::nanoseconds silence, std::chrono::milliseconds heartbeat,
                       RankActions& actions);
  void set_heartbeat(std::chrono::milliseconds interval, RankActions& actions);

  const RankOptions& options_;
  const Time began_;
  std::optional<Welcome> welcome_;  // the first one
  bool answered_ = false;           // whether the wait for it is over
  std::string retry_reason_;        // the reason for which the node last asked to try again
  std::optional<Time> hello_at_;    // when the last hello was sent or asked for
  std::chrono::milliseconds heartbeat_{Welcome{}.heartbeat_ms};
  bool silent_ = false;                       // whether the rank failed because the node is silent
  std::chrono::nanoseconds told_silence_{0};  // the silence that was logged last; 0: none
  bool told_why_unreached_ = false;
};

}  // namespace isocost
