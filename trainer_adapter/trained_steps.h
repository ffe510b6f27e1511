#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A microbatch by its place in the rank's order.
struct OrderedMicrobatch {
  Position position;
  bool last_of_step = false;
  bool last_of_epoch = false;

  static OrderedMicrobatch of(const MicrobatchHeader& header) {
    return {header.position, header.last_of_step(), header.last_of_epoch()};
  }
};

/// Decides which microbatches of a rank are trained, and so which step its saved state names:
/// docs/decisions/0016-what-counts-as-trained.md. A microbatch is trained when the loop says so of
/// it or of a later one. That it was handed out, or that the loop asked for the next one, says
/// nothing. A pure value, the same for C++ and Python. Single-thread.
class TrainedSteps {
 public:
  /// Steps that may be handed out after the last word of the loop. A loop that says nothing for
  /// longer has stopped to say what it trains.
  static constexpr std::uint32_t kMostAhead = 8;

  /// `start`: the first step that is not trained.
  explicit TrainedSteps(StartPoint start) : now_{std::move(start), {}} {}

  /// Records that the loop was given a microbatch. Call it in the rank's order.
  void hand_out(const OrderedMicrobatch& microbatch, std::string cost_model_state);
  /// Records that the loop has received the end of an epoch.
  void end_epoch(std::uint32_t epoch);

  /// Records that the microbatch and all before it are trained. Errors: kInvalidArgument for one
  /// that was not handed out.
  Status train(const OrderedMicrobatch& microbatch);
  /// Records that the microbatch is not trained, although the loop said so last: an exception left
  /// its body.
  void revoke(const Position& position);

  /// Returns the first step that is not trained. Errors: kInvalidArgument if whole steps were
  /// handed out, and the loop has not said of any of them, or not for kMostAhead steps, that it is
  /// trained.
  Result<StartPoint> state() const;
  /// Returns the first step that is not trained if this microbatch is the last one that is.
  /// Errors: those of `train`.
  Result<StartPoint> state_after(const OrderedMicrobatch& microbatch) const;

 private:
  struct Progress {
    StartPoint state;                 // the first step that is not trained
    std::optional<Position> trained;  // the last microbatch that is
  };

  Status check_handed_out(const OrderedMicrobatch& microbatch) const;
  StartPoint following(const OrderedMicrobatch& microbatch) const;
  StartPoint past_end(StartPoint state, const std::optional<Position>& trained) const;
  std::string cost_model_state_at(const Position& position) const;

  Progress now_;
  std::optional<Progress> before_;           // progress before the loop's last report
  std::optional<Position> handed_out_;       // the last microbatch that was handed out
  std::optional<Position> whole_step_;       // the last microbatch that ended a step
  std::uint32_t steps_since_told_ = 0;       // whole steps handed out since the last report
  std::optional<std::uint32_t> ended_;       // the last epoch whose end the loop has received
  std::optional<Position> last_before_end_;  // the last microbatch handed out before that end
  // States of the cost model that came with microbatches that are not trained.
  std::deque<std::pair<Position, std::string>> cost_model_states_;
};

}  // namespace isocost
