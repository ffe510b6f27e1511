#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>

#include "base/result.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// Reads a shard's file whole and compares a hash of it with that of the last call, which `record`
/// keeps across runs (docs/index_format.md). Returns false if the file differs although its size
/// and modification time do not; the record then stays, so that the next call returns the same.
/// Otherwise the record is replaced; failures to write it are ignored. Errors: kIo; kCancelled.
/// If the shard is a range of a file of records, only that range is read.
Result<bool> is_as_last_checked(const ShardFile& shard, const std::optional<ByteRange>& range,
                                const std::filesystem::path& record, const std::stop_token& stop);

}  // namespace isocost
