#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "decode/probe.h"
#include "loader/dataset/internal/index_format.h"
#include "loader/dataset/internal/shard_file.h"

namespace isocost {

/// What one pass over a shard found.
struct BuiltIndex {
  IndexContents contents;
  /// False where reading failed or the shard changed meanwhile: another time it may go better.
  bool keep = true;
};

/// Walks the shard's headers, groups members into samples, probes each part where it stands.
/// Whatever is wrong with the shard becomes a bad entry. `name` is the shard's, for messages.
/// Blocks on reads; computes on the calling thread.
BuiltIndex build_index(const std::shared_ptr<const ShardFile>& shard, const std::string& name,
                       const ProbeLimits& limits, const LogSink& log);

}  // namespace isocost
