#pragma once

#include <filesystem>
#include <stop_token>

#include "base/result.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// Reads a shard's file whole and compares a hash of it with that of the last call, which
/// `record` keeps across runs (docs/index_format.md). Returns false if the file differs and its
/// size and modification time do not; then the record stays, so that the next call says so again.
/// Else the record is written anew; one that cannot be is given up. Errors: kIo; kCancelled.
Result<bool> is_as_last_checked(const ShardFile& shard, const std::filesystem::path& record,
                                const std::stop_token& stop);

}  // namespace isocost
