#include "loader/dataset/stores/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

namespace isocost {

Result<std::unique_ptr<FileSource>> FileSource::open(const std::filesystem::path& path) {
  std::unique_ptr<FileSource> source(new FileSource());
  source->name_ = path.string();
  // O_NONBLOCK avoids waiting for the writer of a pipe; pipes are refused below.
  source->file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!source->file_.is_open() || ::fstat(source->file_.get(), &status) != 0) {
    return last_file_error(path, "open");
  }
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorCode::kIo, source->name_ + ": not a regular file");
  }
  source->bytes_ = status.st_size;
  return source;
}

Result<std::size_t> FileSource::read_at(std::int64_t offset,
                                        std::span<std::byte> destination) const {
  auto read = file_.read_at(offset, destination);
  if (!read) return std::move(read).error().with_context(name_);
  return read;
}

}  // namespace isocost
