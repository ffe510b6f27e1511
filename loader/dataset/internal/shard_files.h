#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>

#include "base/result.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/stores/shard_cache.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// The files of a data set's shards. Recently used ones stay open. A file that is not the
/// one that was indexed is refused, and its index removed, so that the next start indexes the shard
/// as it is by then. Internally synchronised.
class ShardFiles {
 public:
  /// Returns the number of files that stay open at once.
  std::size_t max_open() const { return cache_.max_open(); }
  /// Opens a shard's file. Errors: those of ShardCache::get.
  Result<std::shared_ptr<const ShardFile>> open(const Shard& shard);
  /// Asks the operating system to read ranges of a shard ahead; failures are left to `open`.
  void read_ahead(const Shard& shard, std::span<const ByteRange> ranges);
  /// Reads a shard whole, and returns whether it has the bytes of the last call, in this run or an
  /// earlier one. True for a shard without a kept index, which has no place for a record either.
  /// Errors: those of `open`; kCancelled.
  Result<bool> is_as_last_checked(const Shard& shard, const std::stop_token& stop);

 private:
  ShardCache cache_;
};

}  // namespace isocost
