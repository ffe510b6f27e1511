#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "decode/probe.h"
#include "loader/dataset/internal/index_format.h"
#include "loader/dataset/internal/shard_file.h"

namespace isocost {

/// The result of one pass over a shard.
struct BuiltIndex {
  IndexContents contents;
  /// False if reading failed or the shard changed meanwhile: the next pass may differ.
  bool keep = true;
};

/// Reads the shard's tar headers, groups members into samples and probes each part in place. Faults
/// of the shard become bad entries. `name` is the shard's name, for messages. Blocks on reads; runs
/// on the calling thread.
BuiltIndex build_index(const std::shared_ptr<const ShardFile>& shard, const std::string& name,
                       const ProbeLimits& limits, const LogSink& log);

}  // namespace isocost
