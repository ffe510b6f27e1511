#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// The usable samples of a shard, and where they are cut: nothing if all are usable, and otherwise
/// a bit for each sample, with the number of usable ones before each block of bits. Immutable;
/// const-safe.
class ShardSelection {
 public:
  /// Cuts by the sample's number in the shard.
  using Cuts = std::map<std::uint64_t, TurnCut>;

  ShardSelection() = default;
  /// Selects all of a shard's `samples` but those in `dropped`, which may be in any order.
  ShardSelection(std::uint64_t samples, const std::vector<std::uint32_t>& dropped,
                 const Cuts& cuts);

  /// Returns a selection of its bits, lowest first, which are none if all samples are usable; and
  /// of its cuts, in the order of their samples. Errors: kCorrupt if they do not fit together.
  static Result<ShardSelection> create(std::uint64_t samples, std::vector<std::uint64_t> bits,
                                       std::vector<std::uint32_t> cut_samples,
                                       std::vector<TurnCut> cuts);

  std::uint64_t size() const { return usable_; }
  /// Returns the number of the shard's samples, usable or not.
  std::uint64_t samples() const { return samples_; }
  /// Returns the number in the shard of the i-th usable sample: `i` < size(). Logarithmic.
  std::uint64_t sample(std::uint64_t i) const;
  /// Returns the cut of a sample, by its number in the shard; null: it is whole.
  const TurnCut* cut_of(std::uint64_t sample) const;

  /// Returns a bit for each sample, whether it is usable; nothing if all are.
  std::span<const std::uint64_t> bits() const { return bits_; }
  /// Return the cuts in the order of their samples: their number, and of the i-th one its sample's
  /// number in the shard and the cut.
  std::size_t cuts() const { return cuts_.size(); }
  std::uint32_t cut_sample(std::size_t i) const { return cut_samples_[i]; }
  const TurnCut& cut(std::size_t i) const { return cuts_[i]; }

 private:
  void count();

  std::uint64_t samples_ = 0;
  std::uint64_t usable_ = 0;
  std::vector<std::uint64_t> bits_;    // empty if all samples are usable
  std::vector<std::uint32_t> before_;  // usable samples before each block of bits
  std::vector<std::uint32_t> cut_samples_;
  std::vector<TurnCut> cuts_;  // of cut_samples_
};

}  // namespace isocost
