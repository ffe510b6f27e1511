#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "loader/dataset/catalogue/sample_id.h"

namespace isocost {

/// The order of `shuffle = blocks`. Each epoch permutes the shards. So many consecutive ones of the
/// permuted list as `window_shards` says are a window; the last window may have fewer. The samples
/// of a window are permuted within it, and the windows follow one another. So the samples of a
/// batch come from the shards of one window, or of a few if windows are smaller than the batch.
///
/// The first call for an epoch takes time and memory in proportion to the shards (12 bytes each,
/// kept for the last two epochs), and never to the samples. Immutable but for what it keeps;
/// const-safe.
class BlockOrder {
 public:
  /// `samples`: usable samples of each shard, in the order of their ids. Shards without any take no
  /// place in a window. 0 window shards count as 1. If there are fewer shards, all are one window.
  BlockOrder(std::span<const std::uint64_t> samples, std::uint64_t window_shards);

  /// Returns the number of samples.
  std::uint64_t size() const { return first_.back(); }
  /// Returns the number of shards that have samples.
  std::uint64_t shards() const { return first_.size() - 1; }
  /// Returns the shards of a whole window: those that were asked for, at most all.
  std::uint64_t window_shards() const { return window_shards_; }
  /// Returns a hash of the numbers of samples by shard.
  std::uint64_t fingerprint() const { return fingerprint_; }

  /// Appends the samples at the positions from `begin` to `begin + count` of an epoch, which must
  /// be below size(). Ids count from `first`.
  void append(std::vector<SampleId>& ids, SampleId first, std::uint64_t seed, std::uint64_t epoch,
              std::uint64_t begin, std::uint64_t count) const;

 private:
  struct Epoch;

  std::shared_ptr<const Epoch> epoch_of(std::uint64_t seed, std::uint64_t epoch) const
      ISOCOST_EXCLUDES(mutex_);
  std::shared_ptr<const Epoch> permuted(std::uint64_t seed, std::uint64_t epoch) const;

  std::vector<std::uint64_t> first_;  // number of each shard's first sample, and the size
  std::uint64_t window_shards_;
  std::uint64_t fingerprint_;
  mutable Mutex mutex_;
  // The last epochs, the latest first: a batch may have samples of two (tail = carry), and steps of
  // the next epoch are drawn ahead.
  mutable std::array<std::shared_ptr<const Epoch>, 2> kept_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
