#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/byte_source.h"
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
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// What tells one state of a file from the next.
struct FileStamp {
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// Errors: kNotFound, kIo (also for what is no regular file).
Result<FileStamp> file_stamp(const std::filesystem::path& path);

/// An open regular file, read by position. Immutable; const-safe.
class ShardFile {
 public:
  /// Errors: kNotFound, kIo.
  static Result<std::shared_ptr<const ShardFile>> open(const std::filesystem::path& path);
  /// Takes over an open file; `name` is for messages.
  static Result<std::shared_ptr<const ShardFile>> adopt(FileDescriptor file, std::string name);

  const FileStamp& stamp() const { return stamp_; }
  std::int64_t size() const { return stamp_.size; }
  /// Fewer bytes than asked only at the end. Errors: kInvalidArgument, kIo.
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const;
  /// Asks the operating system to read ahead; does not wait.
  void will_need(std::int64_t offset, std::int64_t size) const;

  ShardFile(FileDescriptor file, std::string name, FileStamp stamp)
      : file_(std::move(file)), name_(std::move(name)), stamp_(stamp) {}

 private:
  FileDescriptor file_;
  std::string name_;
  FileStamp stamp_;
};

/// A range of a file, which it keeps open. Immutable; const-safe.
class FileRange final : public ByteSource {
 public:
  FileRange(std::shared_ptr<const ShardFile> file, std::int64_t offset, std::int64_t size)
      : file_(std::move(file)), offset_(offset), size_(size) {}
  std::int64_t size() const override { return size_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  std::shared_ptr<const ShardFile> file_;
  std::int64_t offset_;
  std::int64_t size_;
};

/// All of `source`. Errors: kCorrupt where it ends early, kResourceExhausted above `limit` bytes.
Result<std::string> read_all(const ByteSource& source, std::int64_t limit);

}  // namespace isocost
