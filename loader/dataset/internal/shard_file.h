#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_source.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/result.h"

namespace isocost {

/// Identifies the file that an index or an open shard belongs to.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
/// Errors: kNotFound, kIo.
Result<FileStamp> stamp_of(const std::filesystem::path& path);

/// An open shard, read as a plain tar. A gzip shard is inflated when it is opened, into an unlinked
/// temporary file that lives as long as this object. Const-safe.
class ShardFile final : public ByteSource {
 public:
  /// Limit of the inflated size of a gzip shard.
  static constexpr std::int64_t kMaxInflatedBytes = std::int64_t{64} << 30;

  /// Opens a shard. A gzip stream that is cut off or damaged gives the bytes before the damage and
  /// a `problem`. Errors: kNotFound, kIo (no room for the inflated bytes), kResourceExhausted.
  static Result<std::shared_ptr<const ShardFile>> open(
      const std::filesystem::path& path, std::int64_t max_inflated_bytes = kMaxInflatedBytes);

  std::int64_t size() const override { return bytes_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  /// Asks the operating system to read a range ahead.
  void read_ahead(std::int64_t offset, std::int64_t bytes) const;

  const FileStamp& stamp() const { return stamp_; }
  bool inflated() const { return inflated_; }
  const std::string& problem() const { return problem_; }

 private:
  ShardFile() = default;
  Status inflate(const std::filesystem::path& path, std::int64_t max_bytes);

  FileDescriptor file_;
  std::int64_t bytes_ = 0;
  FileStamp stamp_;
  bool inflated_ = false;
  std::string problem_;
};

/// A range of a shard; keeps the shard open. Const-safe.
class MemberSource final : public ByteSource {
 public:
  MemberSource(std::shared_ptr<const ShardFile> shard, std::int64_t offset, std::int64_t bytes);
  std::int64_t size() const override { return bytes_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  std::shared_ptr<const ShardFile> shard_;
  std::int64_t offset_;
  std::int64_t bytes_;
};

/// Keeps recently used shards open: at most `max_open` files, and at most `max_inflated_bytes` of
/// inflated ones. A source that still reads a shard keeps it open beyond that. Internally
/// synchronised; opening (and inflating) one shard does not block access to others.
class ShardCache {
 public:
  explicit ShardCache(std::size_t max_open = 256,
                      std::int64_t max_inflated_bytes = std::int64_t{16} << 30);

  /// Errors: those of ShardFile::open; kCorrupt if the file does not match `stamp`.
  Result<std::shared_ptr<const ShardFile>> get(const std::filesystem::path& path,
                                               const FileStamp& stamp) ISOCOST_EXCLUDES(mutex_);

 private:
  using Files = std::list<std::pair<std::string, std::shared_ptr<const ShardFile>>>;
  std::shared_ptr<const ShardFile> find(const std::string& name) ISOCOST_EXCLUDES(mutex_);
  void insert(const std::string& name, std::shared_ptr<const ShardFile> file)
      ISOCOST_EXCLUDES(mutex_);

  const std::size_t max_open_;
  const std::int64_t max_inflated_bytes_;
  std::vector<Mutex> opening_;  // by hash of the name: who holds one may open
  Mutex mutex_;
  Files files_ ISOCOST_GUARDED_BY(mutex_);  // the one used last in front
  std::unordered_map<std::string, Files::iterator> by_name_ ISOCOST_GUARDED_BY(mutex_);
  std::int64_t inflated_bytes_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

}  // namespace isocost
