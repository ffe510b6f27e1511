#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loader/dataset/catalogue/sample_id.h"
#include "loader/plan/block_order.h"
#include "loader/plan/shuffle_policy.h"

namespace isocost {

/// The order of all epochs of a data set, or of all passes over a source. An epoch's order depends
/// on the seed, the epoch and the size; with kBlocks also on the samples of each shard and on the
/// shards of a window. Any position is computed without those before it. Immutable; const-safe.
class EpochOrder {
 public:
  /// `blocks`: with kBlocks the order of `size` samples; otherwise not read.
  EpochOrder(ShufflePolicy shuffle, std::uint64_t seed, std::uint64_t size,
             std::shared_ptr<const BlockOrder> blocks)
      : shuffle_(shuffle), seed_(seed), size_(size), blocks_(std::move(blocks)) {}

  /// Appends the samples at the positions from `begin` to `begin + count` of an epoch, which must
  /// be below the size. Ids count from `first`.
  void append(std::vector<SampleId>& ids, SampleId first, std::uint64_t epoch, std::uint64_t begin,
              std::uint64_t count) const;

 private:
  ShufflePolicy shuffle_;
  std::uint64_t seed_;
  std::uint64_t size_;
  std::shared_ptr<const BlockOrder> blocks_;
};

}  // namespace isocost
