#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/byte_range.h"
#include "base/byte_source.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// State of an open file in the file system: a write, a truncation or a replacement changes it.
struct FileState {
  FileStamp stamp;
  std::int64_t ctime_ns = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

/// Identity of a shard's bytes in its index.
struct ShardIdentity {
  FileStamp stamp;
  std::uint64_t content_hash = 0;  ///< ShardFile::content_hash.
};

/// An open shard, read as a plain tar. One that is compressed by gzip or zstd is inflated when it
/// is opened, into an unlinked temporary file that lives as long as this object. Const-safe.
class ShardFile final : public ByteSource {
 public:
  /// Limit of the inflated size of a compressed shard.
  static constexpr std::int64_t kMaxInflatedBytes = std::int64_t{64} << 30;

  /// Opens a shard. A compressed stream that is cut off or damaged gives the bytes before the
  /// damage and a `problem`. Errors: kNotFound, kIo (no room for the inflated bytes),
  /// kResourceExhausted, kCancelled while a shard is inflated.
  static Result<std::shared_ptr<const ShardFile>> open(
      const std::filesystem::path& path, std::int64_t max_inflated_bytes = kMaxInflatedBytes,
      const std::stop_token& stop = {});

  std::int64_t size() const override { return bytes_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  /// Asks the operating system to read these ranges of a plain tar ahead.
  void read_ahead(std::span<const ByteRange> ranges) const;
  /// Asks for these ranges of a file of `bytes` that is to be opened, and for all that opening and
  /// `content_hash` read.
  static void read_ahead(const std::filesystem::path& path, std::int64_t bytes,
                         std::span<const ByteRange> ranges);

  /// Returns the state of the file when it was opened.
  const FileState& state() const { return state_; }
  /// Returns whether the file has changed since it was opened, or its state is unavailable.
  bool changed() const;
  /// Returns a hash of blocks all over the file, as it is on disk: equal for equal files, and all
  /// but certain to differ for shards of other samples. Reads 64 KiB at most. Errors: kIo.
  Result<std::uint64_t> content_hash() const;
  /// Returns a hash of all bytes of the file, as it is on disk. Errors: kIo; kCancelled.
  Result<std::uint64_t> whole_hash(const std::stop_token& stop) const;
  /// Returns a hash of a range of the plain bytes. Errors: kIo; kCancelled.
  Result<std::uint64_t> plain_hash(const ByteRange& range, const std::stop_token& stop) const;
  bool inflated() const { return plain_.is_open(); }
  const std::string& problem() const { return problem_; }
  /// Returns what stands after the end of the compressed stream; empty: nothing.
  const std::string& unread() const { return unread_; }

 private:
  ShardFile() = default;
  Status inflate(const std::filesystem::path& path, std::int64_t max_bytes,
                 const std::stop_token& stop);

  FileDescriptor file_;
  FileDescriptor plain_;    // holds the inflated bytes of a compressed shard
  std::int64_t bytes_ = 0;  // size of the plain tar
  FileState state_;
  std::string problem_;
  std::string unread_;
};

/// A range of a shard; keeps the shard open. Const-safe.
class MemberSource final : public ByteSource {
 public:
  MemberSource(std::shared_ptr<const ByteSource> shard, std::int64_t offset, std::int64_t bytes);
  std::int64_t size() const override { return bytes_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  std::shared_ptr<const ByteSource> shard_;
  std::int64_t offset_;
  std::int64_t bytes_;
};

}  // namespace isocost
