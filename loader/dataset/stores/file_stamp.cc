#include "loader/dataset/stores/file_stamp.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "loader/dataset/stores/internal/stat_times.h"

namespace isocost {

Result<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return last_file_error(path, "stat");
  return stamp_from(status);
}

Result<StampedFile> open_regular_file(const std::filesystem::path& path) {
  StampedFile opened;
  // O_NONBLOCK avoids waiting for the writer of a pipe; pipes are refused below.
  opened.file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!opened.file.is_open() || ::fstat(opened.file.get(), &status) != 0) {
    return last_file_error(path, "open");
  }
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorCode::kIo, path.string() + ": not a regular file");
  }
  opened.stamp = stamp_from(status);
  return opened;
}

}  // namespace isocost
