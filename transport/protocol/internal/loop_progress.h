#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/result.h"
#include "transport/protocol/rank_actions.h"
#include "transport/protocol/rank_options.h"
#include "transport/wire/messages.h"

namespace isocost {

/// The place of the training loop in the rank's order: which microbatch is in use, which are
/// trained, and so which are acknowledged, and what its reports say beside the loop's own seconds.
/// A loop that does not say which are trained has trained, for the node, the one in use when it
/// asks for the next one. Single-thread.
class LoopProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit LoopProgress(const RankOptions& options);

  /// The loop begins the microbatch.
  void begin_use(const Position& position);
  /// Ends the use of a microbatch, because the loop continues, and acknowledges what is trained.
  void end_use(RankActions& actions);
  /// Ends the last use, because the loop leaves. A loop that has come to the end of the job is done
  /// with all of it, even if it said so of a part only: the node waits for the last
  /// acknowledgement.
  void end_last_use(RankActions& actions);
  /// Repeats the last acknowledgement, for which the node waits and which may have been lost with
  /// the last connection.
  void acknowledge_again(RankActions& actions) const;

  /// The loop took a microbatch.
  void take(const MicrobatchHeader& header);
  /// The loop took an end of epoch.
  void take(const EpochEnd& end) { took_last_end_ = end.last_epoch; }

  /// Returns the last microbatch taken that asks for a profile; {}: none has.
  const Position& asked_for_profile() const { return asked_for_profile_; }

  /// Records that the microbatch and all before it are trained. Errors: kInvalidArgument for one
  /// that the loop has not taken.
  Status train(const Position& position);
  /// Records that the microbatch is not trained, although it was reported last or is in use.
  void revoke(const Position& position);

  /// Counts time that the loop was blocked for microbatches.
  void add_wait(std::chrono::nanoseconds waited) { data_wait_ += waited; }
  /// Sends a report with the time that the loop was blocked since the last one, and records that
  /// its microbatch is trained unless the caller says so itself. In a step whose seconds are not
  /// wanted, it sends only that time, with the last microbatch. Errors: kInvalidArgument for a
  /// microbatch that the loop has not taken, or with work of which nothing was measured.
  Status report(Report report, Time now, RankActions& actions);
  /// Notes that the report has left, so that the next one says how long that took.
  void end_report(Time now);

 private:
  Status check_taken(const char* what, const Position& position) const;
  Status check_measured(const Report& report) const;
  bool is_wanted(const Position& position) const;
  void note_trained(const Position& position);
  void note_unwanted(const MicrobatchHeader& header);
  bool says_what_is_trained() const;
  void acknowledge_up_to(const Position& position, RankActions& actions);
  void send(Report report, RankActions& actions);

  const std::uint32_t most_steps_ahead_;
  const bool prepares_ahead_;
  std::optional<Position> in_use_;
  std::optional<Position> used_;            // the last one that was in use
  std::optional<Position> trained_;         // the last one by the loop's word
  std::optional<Position> trained_before_;  // `trained_` before that word
  std::uint32_t steps_since_told_ = 0;      // steps that were in use since the loop's last word
  std::optional<Position> acknowledged_;
  std::optional<Position> taken_;  // the last one that the loop took
  Position asked_for_profile_;
  bool took_last_end_ = false;  // whether the loop took the last epoch's end
  // The last kRemembered that the loop took and that have no work.
  std::deque<Position> without_work_;
  // The last microbatches of the last kRemembered steps that the loop began and whose seconds are
  // not wanted.
  std::deque<Position> unwanted_;
  std::chrono::nanoseconds data_wait_{0};  // time that the loop was blocked since the last report
  std::optional<Time> reporting_since_;    // when a report of measured seconds was sent
  std::chrono::nanoseconds reporting_{0};  // time that sending the last one took
};

}  // namespace isocost
