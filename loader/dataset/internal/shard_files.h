#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/read_ahead_ranges.h"
#include "loader/dataset/stores/media_files.h"
#include "loader/dataset/stores/shard_cache.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// The files of a data set's shards, and those of their media if these lie apart. Recently used
/// ones stay open. A file that is not the one that was indexed is refused, and its index made
/// stale, so that the next start indexes the shard as it is by then. Internally synchronised. Must
/// outlive the sources that it gives.
class ShardFiles {
 public:
  /// Returns the number of files that stay open at once.
  std::size_t max_open() const { return cache_.max_open(); }
  /// Opens a shard's file. Errors: those of ShardCache::get.
  Result<std::shared_ptr<const ShardFile>> open(const Shard& shard);
  /// Opens the bytes of a part of a sample. Errors: those of `open`; kNotFound, kIo and
  /// kUnavailable for a medium's file that is absent or has changed; kCorrupt for a record that no
  /// longer has the part. `ahead` is what `read_ahead` has returned, or null.
  Result<std::unique_ptr<ByteSource>> open_part(const Shard& shard, std::uint64_t sample,
                                                const PartPlace& place,
                                                const std::shared_ptr<const ByteSource>& ahead);
  /// Asks the operating system to read media in files of their own ahead; failures are left to
  /// `open_part`.
  static void read_ahead_media(const Shard& shard, std::span<const FileAhead> files);
  /// Returns the bytes of a shard on a server for a reader of all its samples in their order, as
  /// the `ahead` of `open_part`; null for one on a disk. Errors: those of `open`.
  Result<std::shared_ptr<const ByteSource>> pass(const Shard& shard);
  /// Begins to read ranges of a shard ahead: see ShardFile::fetch. Failures are left to `open`.
  std::shared_ptr<const ByteSource> read_ahead(const Shard& shard,
                                               std::span<const ByteRange> ranges,
                                               const std::stop_token& stop);
  /// Reads a shard whole, and returns whether it has the bytes of the last call, in this run or an
  /// earlier one. True for a shard without a kept index, which has no place for a record either. Of
  /// media in files of their own, size and modification time are compared, and of an object what
  /// its server says of it. Errors: those of `open_part`; kCancelled.
  Result<bool> is_as_last_checked(const Shard& shard, const std::stop_token& stop);

 private:
  Result<std::string> make(const Shard& shard, std::uint64_t sample, const PartPlace& place,
                           const std::shared_ptr<const ByteSource>& ahead);

  ShardCache cache_;
  MediaFiles media_;
};

}  // namespace isocost
