#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loader/dataset/stores/stored_file.h"

namespace isocost {

struct MdsStoredShard;
struct RecordShard;
struct TarChoice;
class StoredObjects;

/// A directory below which shards have their names, and where their indexes are.
struct ShardRoot {
  std::filesystem::path directory;  ///< An address without secrets for objects.
  /// Directories that may hold the indexes, preferred first.
  std::vector<std::filesystem::path> index_directories;
  std::shared_ptr<StoredObjects> objects = nullptr;  ///< Null: files on a disk.
};

/// Returns the root of shards below a directory. Their indexes are in a folder of `index_dir` if
/// that is given; else in ".isocost" beside the shards, then in the user's cache for shards in a
/// directory that cannot be written. Those of objects are in the user's cache.
std::shared_ptr<const ShardRoot> shard_root(std::filesystem::path directory,
                                            const std::filesystem::path& index_dir,
                                            std::shared_ptr<StoredObjects> objects = nullptr);

/// A shard's root, and its name: the path from there, with '/'. Value type.
struct ShardPlace {
  std::shared_ptr<const ShardRoot> root;
  std::string name;
  /// The records of which the shard consists, which are a range of a file, or files of a directory.
  /// Null: the shard is a file of its own.
  std::shared_ptr<RecordShard> records = nullptr;
  /// The shard as the index of its data set states it, if it is one of Mosaic Streaming. Else null.
  std::shared_ptr<const MdsStoredShard> mds = nullptr;
  /// The choice of what is read of a tar, where its data set or a setting says more. Else null.
  std::shared_ptr<const TarChoice> tar = nullptr;

  /// Returns the file of the shard, its directory, or its address.
  std::filesystem::path path() const;
  /// Returns where the bytes of the shard lie.
  StoredFile file() const;
};

/// Returns the name of a shard of a source in a mixture, "source/shard"; that of the shard alone if
/// the source has no name.
std::string name_in_source(std::string_view source, std::string_view shard);

/// Returns the file in a directory of indexes for a shard of this name.
std::filesystem::path index_path(const std::filesystem::path& directory, std::string_view shard);

/// Returns the name of the shard that an index file in a directory of indexes belongs to; empty: it
/// is no index file.
std::string shard_of_index(const std::filesystem::path& directory,
                           const std::filesystem::path& file);

/// Removes what is kept of a shard: its index, its tokens and the record of the last check.
void remove_index(const ShardPlace& shard);

}  // namespace isocost
