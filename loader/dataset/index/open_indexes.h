#pragma once

#include <cstddef>
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

/// Opens the indexes of shards, or builds those that are missing or stale. Returns them in the
/// order of the shards. One process at a time builds those of the first shard's root
/// (maker_lock.h); the others wait for it, and then have them. Shards whose indexes are current do
/// not wait. Blocks; works on the calling thread and on threads of its own, all of which call
/// `progress` and `log`, without a lock. Errors: those of open_or_build_index, after which no
/// further shard is begun, and nobody waits for another process.
Result<std::vector<std::unique_ptr<const ShardIndex>>> open_indexes(
    std::span<const ShardPlace> shards, const IndexingOptions& options);

}  // namespace isocost
