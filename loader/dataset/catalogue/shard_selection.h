#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// The usable samples of a shard, and where they are cut. Immutable; const-safe.
class ShardSelection {
 public:
  /// Cuts by the sample's number in the shard.
  using Cuts = std::map<std::uint64_t, TurnCut>;

  /// Selects all of a shard's `samples` but those in `dropped`, which may be in any order.
  ShardSelection(std::uint64_t samples, std::vector<std::uint32_t> dropped, Cuts cuts);

  std::uint64_t size() const { return all_ ? samples_ : kept_.size(); }
  /// Returns the number in the shard of the i-th usable sample: `i` < size().
  std::uint64_t sample(std::uint64_t i) const { return all_ ? i : kept_[i]; }
  /// Returns the cut of a sample, by its number in the shard; null: it is whole.
  const TurnCut* cut_of(std::uint64_t sample) const;
  const Cuts& cuts() const { return cuts_; }

 private:
  std::uint64_t samples_;
  bool all_;
  std::vector<std::uint32_t> kept_;  // empty if all are
  Cuts cuts_;
};

}  // namespace isocost
