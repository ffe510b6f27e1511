#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace isocost {

/// The contents of a file that is given as data.
enum class FileKind : std::uint8_t {
  kShard,    ///< A tar file, or one that is compressed by gzip or zstd.
  kRecords,  ///< JSON: an array or lines, plain or compressed.
  kList,     ///< Text: a path on each line.
};

/// Decides by the first bytes of a file what it holds. A file with the ending of a shard is one,
/// whatever its bytes: it may be damaged. Errors: kInvalidArgument for bytes of another kind, with
/// what to do; kNotFound; kIo.
Result<FileKind> kind_of_file(const std::filesystem::path& file);

}  // namespace isocost
