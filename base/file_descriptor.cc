#include "base/file_descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

Error io_error(int code) { return {ErrorCode::kIo, std::generic_category().message(code)}; }

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

Result<std::size_t> FileDescriptor::read_at(std::int64_t offset,
                                            std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative read offset");
  std::size_t done = 0;
  while (done < destination.size()) {
    const ::ssize_t count = ::pread(fd_, destination.data() + done, destination.size() - done,
                                    offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Status FileDescriptor::write(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Error last_file_error(const std::filesystem::path& file, std::string_view action) {
  const int code = errno;
  return {code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          file.string() + ": cannot " + std::string(action) + ": " +
              std::generic_category().message(code)};
}

}  // namespace isocost
