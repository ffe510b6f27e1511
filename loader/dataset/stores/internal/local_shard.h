#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>

#include "base/file_descriptor.h"
#include "base/result.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// The bytes of a file on a disk, as they are stored. Const-safe.
class LocalShard final : public ShardFile, public std::enable_shared_from_this<LocalShard> {
 public:
  /// Errors: kNotFound, kIo.
  static Result<std::shared_ptr<const LocalShard>> open(const std::filesystem::path& path);

  std::int64_t size() const override { return state().stamp.bytes; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  /// Returns null: see ShardFile::fetch.
  std::shared_ptr<const ByteSource> fetch(std::span<const ByteRange> ranges,
                                          const std::stop_token& stop) const override;
  std::shared_ptr<const ByteSource> pass(const std::stop_token& stop) const override;
  bool changed() const override;

 private:
  LocalShard(FileDescriptor file, const FileState& state);
  Result<std::size_t> read_stored(std::int64_t offset,
                                  std::span<std::byte> destination) const override {
    return file_.read_at(offset, destination);
  }

  const FileDescriptor file_;
};

}  // namespace isocost
