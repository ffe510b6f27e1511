#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace isocost {

/// Returns the directories that may hold the indexes of a directory of shards, preferred first: a
/// folder in `index_dir` if that is given; else ".isocost" beside the shards, then the user's cache
/// for shards in a directory that cannot be written.
std::vector<std::filesystem::path> index_directories(const std::filesystem::path& shards,
                                                     const std::filesystem::path& index_dir);

/// Returns the file in a directory of indexes for a shard.
std::filesystem::path index_path(const std::filesystem::path& directory,
                                 const std::filesystem::path& shard);

/// Returns the name of the shard that an index file belongs to; empty: it is no index file.
std::string shard_of_index(const std::filesystem::path& file);

/// Removes what is kept of a shard in these directories: its index, its tokens and the record of
/// the last check.
void remove_index(std::span<const std::filesystem::path> directories,
                  const std::filesystem::path& shard);

}  // namespace isocost
