#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// A shard in a file on a disk. Const-safe.
class LocalShard final : public ShardFile, public std::enable_shared_from_this<LocalShard> {
 public:
  /// Errors: those of ShardFile::open.
  static Result<std::shared_ptr<const LocalShard>> open(const std::filesystem::path& path,
                                                        std::int64_t max_inflated_bytes,
                                                        const std::stop_token& stop);

  std::int64_t size() const override { return bytes_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  /// Returns null: see ShardFile::fetch.
  std::shared_ptr<const ByteSource> fetch(std::span<const ByteRange> ranges,
                                          const std::stop_token& stop) const override;
  std::shared_ptr<const ByteSource> pass() const override;
  bool changed() const override;
  bool inflated() const override { return plain_.is_open(); }
  const std::string& problem() const override { return problem_; }
  const std::string& unread() const override { return unread_; }

 private:
  LocalShard(FileDescriptor file, const FileState& state);
  Result<std::size_t> read_stored(std::int64_t offset,
                                  std::span<std::byte> destination) const override;
  Status inflate(const std::filesystem::path& path, std::int64_t max_bytes,
                 const std::stop_token& stop);

  FileDescriptor file_;
  FileDescriptor plain_;    // holds the inflated bytes of a compressed shard
  std::int64_t bytes_ = 0;  // size of the plain tar
  std::string problem_;
  std::string unread_;
};

}  // namespace isocost
