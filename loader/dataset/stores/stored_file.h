#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/file_stamp.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

class StoredObjects;

/// The place of a shard's bytes: a file on a disk, or an object on a server. Value type.
struct StoredFile {
  /// The file; of an object its address without secrets, for messages.
  std::filesystem::path path;
  std::shared_ptr<StoredObjects> objects = nullptr;  ///< Null: a file on a disk.
  std::string key = {};                              ///< The object's key.
};

/// Returns the stamp of a file or an object: see file_stamp_of. Errors: those of stamp_of and
/// ObjectStore::stamp.
Result<FileStamp> stamp_of(const StoredFile& file);

/// Opens a shard. Of an object nothing is read yet. Errors: those of ShardFile::open and
/// ObjectStore::stamp.
Result<std::shared_ptr<const ShardFile>> open_shard(const StoredFile& file,
                                                    const std::stop_token& stop = {});

/// Refuses an object that begins as a compressed stream, whose ranges cannot be read alone. Errors:
/// kUnsupported; those of reading.
Status refuse_compressed_object(const StoredFile& file, const ShardFile& shard);

}  // namespace isocost
