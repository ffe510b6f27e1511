#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

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

/// An open shard, read as a plain tar: a file on a disk or an object on a server. One that is
/// compressed by gzip or zstd is inflated when it is opened, into an unlinked temporary file that
/// lives as long as this object. Const-safe.
class ShardFile : public ByteSource {
 public:
  /// Limit of the inflated size of a compressed shard.
  static constexpr std::int64_t kMaxInflatedBytes = std::int64_t{64} << 30;

  /// Opens a file. A compressed stream that is cut off or damaged gives the bytes before the
  /// damage and a `problem`. Errors: kNotFound, kIo (no room for the inflated bytes),
  /// kResourceExhausted, kCancelled while a shard is inflated.
  static Result<std::shared_ptr<const ShardFile>> open(
      const std::filesystem::path& path, std::int64_t max_inflated_bytes = kMaxInflatedBytes,
      const std::stop_token& stop = {});
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  /// Begins to read ranges of the file as it is stored; those of a plain tar are those of
  /// `read_at`. Returns a source of the stored bytes, with those of the ranges at hand for as long
  /// as it lives; null if the operating system has been asked, and the next reads find them at
  /// hand. `stop` ends what is under way.
  virtual std::shared_ptr<const ByteSource> fetch(std::span<const ByteRange> ranges,
                                                  const std::stop_token& stop) const = 0;
  /// Returns the shard's bytes for one reader that mostly moves forward. Keeps the shard open.
  /// `stop` ends its reads of a server.
  virtual std::shared_ptr<const ByteSource> pass(const std::stop_token& stop) const = 0;
  std::shared_ptr<const ByteSource> pass() const { return pass({}); }

  /// Returns the state of the file when it was opened; of an object only the stamp is set.
  const FileState& state() const { return state_; }
  /// Returns whether the file has changed since it was opened, or its state is unavailable.
  virtual bool changed() const = 0;
  /// Returns a hash of blocks all over the file, as it is stored: equal for equal files, and all
  /// but certain to differ for shards of other samples. Reads 64 KiB at most. Errors: those of
  /// reading.
  Result<std::uint64_t> content_hash() const;
  /// Returns a hash of all bytes of the file, as it is stored. Errors: those of reading;
  /// kCancelled.
  Result<std::uint64_t> whole_hash(const std::stop_token& stop) const;
  /// Returns a hash of a range of the plain bytes. Errors: those of reading; kCancelled.
  Result<std::uint64_t> plain_hash(const ByteRange& range, const std::stop_token& stop) const;
  virtual bool inflated() const { return false; }
  /// Returns why the end of a compressed stream cannot be read; empty: it can.
  virtual const std::string& problem() const;
  /// Returns what stands after the end of the compressed stream; empty: nothing.
  virtual const std::string& unread() const;

 protected:
  explicit ShardFile(const FileState& state) : state_(state) {}
  /// Reads bytes of the file as it is stored: see ByteSource::read_at.
  virtual Result<std::size_t> read_stored(std::int64_t offset,
                                          std::span<std::byte> destination) const = 0;

 private:
  const FileState state_;
};

/// Asks the operating system to read these ranges of a file of `bytes` that is to be opened, and
/// all that opening and ShardFile::content_hash read.
void read_file_ahead(const std::filesystem::path& path, std::int64_t bytes,
                     std::span<const ByteRange> ranges);

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
