#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <variant>

#include "base/result.h"
#include "transport/protocol/rank_actions.h"
#include "transport/wire/messages.h"

namespace isocost {

/// The order in which microbatches and ends of epochs are handed over: once each, in the order in
/// which the node announced them, in whatever order their parts arrive. Single-thread.
class ReassemblyOrder {
 public:
  /// `prefetch`: limit of microbatches that are ready or on their way.
  explicit ReassemblyOrder(std::uint32_t prefetch) : prefetch_(prefetch) {}

  /// Returns the last position that was handed over, after which the node continues.
  const std::optional<Position>& received() const { return received_; }
  bool is_received(const Position& position) const;
  /// Returns whether the end of the last epoch was handed over.
  bool last_epoch_ended() const { return last_epoch_ended_; }
  /// Drops what is not handed over, because the node sends it again in a new session.
  void restart();

  /// Takes the announcement of a microbatch that is not received, and has it assembled. One that
  /// comes again is ignored. Errors: kCorrupt for one without credit.
  Status announce(const Position& position, RankActions& actions);
  /// Takes an end of epoch. Errors: kCorrupt for too many.
  Status announce(const EpochEnd& end);
  /// Says what becomes of a microbatch's block, which may come before its announcement. Errors:
  /// kCorrupt for one without credit.
  Result<BlockUse> place_block(const Position& position);
  /// Takes the result of assembling an announced microbatch.
  void complete(const Position& position, const Status& assembled);

  /// Hands over what is next and complete, and counts its microbatches in `handed`. Errors: that of
  /// a microbatch whose assembly failed, when its turn has come.
  Status hand_over(std::uint32_t& handed, RankActions& actions);

 private:
  struct Announced {
    Position position;
    std::optional<Status> assembled = {};  // empty: incomplete
  };

  Announced* find(const Position& position);
  std::size_t count_announced() const;

  const std::uint32_t prefetch_;
  // Announced and not handed over yet, in order. Fragments of several microbatches may arrive
  // interleaved, and an end of epoch before the last fragment.
  std::deque<std::variant<Announced, EpochEnd>> pending_;
  std::set<Position> early_blocks_;  // arrived before their announcements
  std::optional<Position> received_;
  std::optional<std::uint32_t> last_epoch_end_;  // the last one that was handed over
  bool last_epoch_ended_ = false;
};

}  // namespace isocost
