#include "loader/internal/shard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

Error system_error_of(const std::string& name, const char* what) {
  const int code = errno;
  return {code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          name + ": " + what + ": " + std::generic_category().message(code)};
}

Result<FileStamp> stamp_of(const struct stat& status, const std::string& name) {
  if (!S_ISREG(status.st_mode)) return Error(ErrorCode::kIo, name + ": not a regular file");
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return FileStamp{status.st_size, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
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

Result<FileStamp> file_stamp(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return system_error_of(path.string(), "stat");
  return stamp_of(status, path.string());
}

Result<std::shared_ptr<const ShardFile>> ShardFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe with a shard's name must not hang us; it is refused below.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error_of(path.string(), "open");
  return adopt(std::move(file), path.string());
}

Result<std::shared_ptr<const ShardFile>> ShardFile::adopt(FileDescriptor file, std::string name) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return system_error_of(name, "stat");
  ISOCOST_ASSIGN(const FileStamp stamp, stamp_of(status, name));
  return std::shared_ptr<const ShardFile>(
      std::make_shared<ShardFile>(std::move(file), std::move(name), stamp));
}

Result<std::size_t> ShardFile::read_at(std::int64_t offset,
                                       std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, name_ + ": negative offset");
  std::size_t done = 0;
  while (done < destination.size()) {
    const ::ssize_t got = ::pread(file_.get(), destination.data() + done, destination.size() - done,
                                  offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(ErrorCode::kIo, system_error_of(name_, "read").message());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void ShardFile::will_need(std::int64_t offset, std::int64_t size) const {
  static_cast<void>(::posix_fadvise(file_.get(), offset, size, POSIX_FADV_WILLNEED));
}

Result<std::size_t> FileRange::read_at(std::int64_t offset,
                                       std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative offset");
  if (offset >= size_) return std::size_t{0};
  const auto left = static_cast<std::size_t>(size_ - offset);
  return file_->read_at(offset_ + offset, destination.first(std::min(left, destination.size())));
}

Result<std::string> read_all(const ByteSource& source, std::int64_t limit) {
  if (source.size() > limit) {
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(source.size()) + " bytes, the limit is " + std::to_string(limit));
  }
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  ISOCOST_ASSIGN(const std::size_t got, source.read_at(0, std::as_writable_bytes(std::span(text))));
  if (got != text.size()) {
    return Error(ErrorCode::kCorrupt, "cut off: has " + std::to_string(got) + " of " +
                                          std::to_string(text.size()) + " bytes");
  }
  return text;
}

}  // namespace isocost
