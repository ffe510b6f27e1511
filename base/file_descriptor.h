#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Owns a file descriptor. Move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

  /// Reads from `offset` until `destination` is full or the file ends. Returns the number of bytes
  /// read. Const-safe. Errors: kInvalidArgument for a negative offset; kIo. The caller adds the
  /// file's name.
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const;
  /// Writes all bytes at the file's position. Errors: kIo. The caller adds the file's name.
  Status write(std::span<const std::byte> bytes) const;

 private:
  int fd_ = -1;
};

/// Returns errno's error, "FILE: cannot ACTION: reason": kNotFound if there is no such file, else
/// kIo.
Error last_file_error(const std::filesystem::path& file, std::string_view action);

}  // namespace isocost
