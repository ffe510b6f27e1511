#pragma once

#include <cstdint>
#include <filesystem>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// Identifies the file that an index or an open shard belongs to.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
/// Returns a file's stamp. Errors: kNotFound, kIo.
Result<FileStamp> stamp_of(const std::filesystem::path& path);

/// Opens a regular file for reading and returns its stamp, too. Errors: kNotFound, kIo (also if it
/// is not a regular file).
struct StampedFile {
  FileDescriptor file;
  FileStamp stamp;
};
Result<StampedFile> open_regular_file(const std::filesystem::path& path);

}  // namespace isocost
