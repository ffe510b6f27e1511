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
  bool is_compressed = false;  ///< By its name: an object is inflated when it is opened.
};

/// Returns the stamp of a file or an object: see file_stamp_of. Errors: those of stamp_of and
/// ObjectStore::stamp.
Result<FileStamp> stamp_of(const StoredFile& file);

/// Opens a shard. Of an object nothing is read yet, or all that it has if its name says that it is
/// compressed. Errors: those of ShardFile::open and ObjectStore::stamp; those of reading.
Result<std::shared_ptr<const ShardFile>> open_shard(const StoredFile& file,
                                                    const std::stop_token& stop = {});

/// Refuses an object that begins as a compressed stream and has another name: it is not looked at
/// for that whenever it is opened. Errors: kUnsupported; those of reading.
Status refuse_misnamed_object(const StoredFile& file, const ShardFile& shard);

}  // namespace isocost
