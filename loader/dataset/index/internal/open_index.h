#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "base/log.h"
#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_location.h"

namespace isocost {

/// A shard whose index is asked for, and the values that an index on disk must have been made with.
struct IndexRequest {
  ShardPlace shard;
  ProbeLimits limits;
  SampleReading reading;
  LogSink log;
  std::stop_token stop = {};
  /// Called before an index is built; the index is looked for again then, since another process may
  /// have made it meanwhile. Null: nothing is called.
  std::function<Status()> before_building = {};
};

/// Returns the identity that a current index has. Errors: kNotFound, kIo if there is no shard.
Result<IndexIdentity> identity_of(const IndexRequest& request);

/// Returns the shard's index: the first current one in its root's directories, or else a new one,
/// written to the first of them that can be written. Errors: kNotFound, kIo if the shard cannot be
/// read; kCancelled; those of before_building.
Result<std::unique_ptr<ShardIndex>> open_or_build_index(const IndexRequest& request);

/// Returns a new index that is written nowhere. Errors: kNotFound, kIo if the shard cannot be read.
Result<std::unique_ptr<ShardIndex>> build_index_in_memory(const IndexRequest& request);

}  // namespace isocost
