#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/broken_shard.h"

namespace isocost {

/// The shards of a directory.
struct ShardListing {
  std::vector<std::filesystem::path> shards;  ///< By name.
  /// Lost shards: entries with a shard's name that are no files, and shards that are absent while
  /// their index is there.
  std::vector<BrokenShard> lost;
  /// Archives of other formats, and directories below that hold shards, with what is to be done:
  /// "name: reason".
  std::vector<std::string> unread;
};

/// Lists a directory, and the indexes in `index_directories`. Errors: kNotFound (no directory, no
/// shards and no indexes of shards), kIo.
Result<ShardListing> list_shards(const std::filesystem::path& directory,
                                 std::span<const std::filesystem::path> index_directories);

}  // namespace isocost
