#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_file.h"

namespace isocost {

/// What decides which index a shard has, and whether one on disk is current.
struct IndexRequest {
  std::filesystem::path shard;
  std::vector<std::filesystem::path> directories;
  ProbeLimits limits;
  SampleReading reading;
  LogSink log;
  std::stop_token stop = {};
};

/// Returns the shard's index: the first current one in `directories`, or else a new one, written to
/// the first directory that can be written. Errors: kNotFound, kIo if the shard cannot be read;
/// kCancelled.
Result<std::unique_ptr<ShardIndex>> open_or_build_index(const IndexRequest& request);

}  // namespace isocost
