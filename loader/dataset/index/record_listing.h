#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "loader/dataset/index/record_shard.h"

namespace isocost {

struct RecordListingOptions {
  SampleInputOptions input;  ///< How records are read.
  /// Directories of indexes, preferred first: how a file is divided is kept there.
  std::vector<std::filesystem::path> directories = {};
  ProgressSink progress = {};
  std::stop_token stop = {};
};

/// Returns the shards of a file of records, or of a directory of files: 10,000 records or samples
/// each. `name` is the file's name in names of shards: the shards of "docs.jsonl" are
/// "docs.jsonl-000000" and so on. A file is read once to find them, a directory is listed each
/// time. Blocks. Errors: those of SampleInput::open; kNotFound for no record; kIo, kCancelled.
Result<std::vector<std::shared_ptr<RecordShard>>> list_record_shards(
    const std::filesystem::path& path, const std::string& name,
    const RecordListingOptions& options);

/// Returns the name of a shard by its number.
std::string record_shard_name(const std::string& name, std::size_t number);

}  // namespace isocost
