#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/bad_sample.h"

namespace isocost {

/// The shards of a directory.
struct ShardListing {
  std::vector<std::filesystem::path> shards;  ///< By name.
  /// Lost shards, by name: entries with a shard's name that are no files.
  std::vector<BadSample> lost;
};

/// Lists a directory. Errors: kNotFound (no directory, no shards in it), kIo.
Result<ShardListing> list_shards(const std::filesystem::path& directory);

}  // namespace isocost
