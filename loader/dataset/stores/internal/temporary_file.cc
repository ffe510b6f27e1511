#include "loader/dataset/stores/internal/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace isocost {

std::filesystem::path temporary_directory() {
  const char* chosen = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ignored;
  if (std::filesystem::is_directory("/var/tmp", ignored)) return "/var/tmp";
  return std::filesystem::temp_directory_path(ignored);
}

Result<FileDescriptor> create_temporary() {
  const std::filesystem::path directory = temporary_directory();
  std::string name = (directory / "isocost-shard-XXXXXX").string();
  FileDescriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) {
    return Error(ErrorCode::kIo,
                 fmt::format("cannot make a temporary file in {}: {}; set TMPDIR",
                             directory.string(), std::generic_category().message(errno)));
  }
  unlink(name.c_str());
  return file;
}

}  // namespace isocost
