#include "loader/dataset/internal/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

Error last_error(const std::string& name, const char* what) {
  const int code = errno;
  return {code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          name + ": cannot " + what + ": " + std::generic_category().message(code)};
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<FileSource>> FileSource::open(const std::filesystem::path& path) {
  std::unique_ptr<FileSource> source(new FileSource());
  source->name_ = path.string();
  // O_NONBLOCK: opening a pipe must not wait for its writer; pipes are refused below.
  source->file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (source->file_.get() < 0 || ::fstat(source->file_.get(), &status) != 0) {
    return last_error(source->name_, "open");
  }
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorCode::kIo, source->name_ + ": not a regular file");
  }
  source->bytes_ = status.st_size;
  return source;
}

Result<std::size_t> FileSource::read_at(std::int64_t offset,
                                        std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, name_ + ": negative offset");
  std::size_t done = 0;
  while (done < destination.size()) {
    const ::ssize_t got = ::pread(file_.get(), destination.data() + done, destination.size() - done,
                                  offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return last_error(name_, "read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace isocost
