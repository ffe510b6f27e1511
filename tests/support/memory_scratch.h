#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/scratch_directory.h"

namespace isocost {

/// Makes this process's temporary files in memory where the system has a directory for that, and
/// returns one such directory. For programs that write thousands of files that are flushed to disk.
inline ScratchDirectory memory_scratch(std::string_view prefix) {
  std::error_code ignored;
  if (std::filesystem::is_directory("/dev/shm", ignored)) {
    setenv("TMPDIR", "/dev/shm", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  return ScratchDirectory::create(prefix).value();
}

}  // namespace isocost
