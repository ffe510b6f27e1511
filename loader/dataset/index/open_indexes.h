#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_location.h"

namespace isocost {

struct IndexingOptions {
  ProbeLimits limits;
  SampleReading reading;
  std::size_t workers = 0;  ///< Shards indexed at once; 0: one per core, of plain tars at least 8.
  ProgressSink progress;    ///< Told the name of each shard that is done.
  LogSink log;
  std::stop_token stop = {};
};

/// Functions that use the indexes of shards. Both are called on several threads at once,
/// each once for a shard.
struct IndexUse {
  /// Returns whether the index of a shard is not needed, so that it is not opened, and its progress
  /// not told. Null: all are.
  std::function<bool(std::size_t shard)> is_known = {};
  std::function<Status(std::size_t shard, std::unique_ptr<const ShardIndex> index)> take;
};

/// Opens the indexes of shards, or builds those that are missing or stale, and hands out each one
/// when it is open, so that not all are open at once. Errors: those of open_indexes and of
/// `use.take`; of several shards that fail, those of the first one.
Status for_each_index(std::span<const ShardPlace> shards, const IndexingOptions& options,
                      const IndexUse& use);

/// Returns the identity that a current index of the shard has. Errors: kNotFound, kIo.
Result<IndexIdentity> identity_of(const ShardPlace& shard, const ProbeLimits& limits,
                                  const SampleReading& reading);

/// Builds the index of a shard in memory, also if there is one in a file: that may be another
/// job's. Errors: kUnavailable for a directory of files, whose listing is no longer held; those of
/// reading the shard.
Result<std::unique_ptr<const ShardIndex>> build_in_memory(const ShardPlace& shard,
                                                          const ProbeLimits& limits,
                                                          const SampleReading& reading);

/// Opens the indexes of shards, or builds those that are missing or stale. Returns them in the
/// order of the shards. One process at a time builds those of the first shard's root
/// (maker_lock.h); the others wait for it, and then have them. Shards whose indexes are current do
/// not wait. Blocks; works on the calling thread and on threads of its own, all of which call
/// `progress` and `log`, without a lock. Errors: those of open_or_build_index, after which no
/// further shard is begun, and nobody waits for another process.
Result<std::vector<std::unique_ptr<const ShardIndex>>> open_indexes(
    std::span<const ShardPlace> shards, const IndexingOptions& options);

}  // namespace isocost
