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

/// Opens the bytes of a shard as they are stored, and reads none. Errors: kNotFound, kIo; those of
/// ObjectStore::stamp.
Result<std::shared_ptr<const ShardFile>> open_stored(const StoredFile& file,
                                                     const std::stop_token& stop = {});

/// Returns a shard whose stored bytes are open, read as a plain tar. Reads a compressed shard
/// whole, and inflates it. Errors: those of ShardFile::open; those of reading.
Result<std::shared_ptr<const ShardFile>> inflate_shard(const StoredFile& file,
                                                       std::shared_ptr<const ShardFile> stored,
                                                       const std::stop_token& stop = {});

/// Does both.
Result<std::shared_ptr<const ShardFile>> open_shard(const StoredFile& file,
                                                    const std::stop_token& stop = {});

/// Refuses an object whose bytes are compressed while its name says that they are plain: opening it
/// does not look at its bytes, which would cost a request. Errors: kUnsupported; those of reading.
Status refuse_misnamed_object(const StoredFile& file, const ShardFile& shard);

}  // namespace isocost
