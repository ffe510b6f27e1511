#pragma once

#include <filesystem>
#include <stop_token>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/index/index_location.h"

namespace isocost {

/// Copies the index and the tokens that lie beside a shard on a server, below ".isocost/" in its
/// root, into the first of the root's directories of indexes, over those that are there. Returns
/// whether there was an index. Copies nothing for a shard on a disk. What is copied is as hostile
/// as any file. An object that is absent, or cannot be read, is passed over; the latter is logged.
/// Errors: kUnavailable (the server cannot be reached), kCancelled.
Result<bool> copy_index_beside(const ShardPlace& shard, const LogSink& log,
                               const std::stop_token& stop);

/// Copies the tokens that lie beside a shard on a server to a file that does not exist, such as
/// those that were made after the index was copied. Returns whether there were some, and errors as
/// `copy_index_beside`.
Result<bool> copy_tokens_beside(const ShardPlace& shard, const std::filesystem::path& to,
                                const LogSink& log, const std::stop_token& stop);

}  // namespace isocost
