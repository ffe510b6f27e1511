#pragma once

#include <filesystem>

#include "base/file_descriptor.h"
#include "base/result.h"

namespace isocost {

/// Returns the directory for decompressed shards, which may be large: $TMPDIR, else /var/tmp, since
/// /tmp is often memory.
std::filesystem::path temporary_directory();

/// Creates a file there that is already unlinked. Errors: kIo.
Result<FileDescriptor> create_temporary();

}  // namespace isocost
