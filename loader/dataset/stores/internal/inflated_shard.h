#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/stores/internal/decompress.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// A compressed shard, inflated when it is opened, wherever its bytes are stored. Const-safe.
class InflatedShard final : public ShardFile, public std::enable_shared_from_this<InflatedShard> {
 public:
  /// Returns `stored` if its bytes are plain, else the shard that they are inflated to. `name` is
  /// for messages. Errors: those of reading and decompress_to_temporary; kCancelled.
  static Result<std::shared_ptr<const ShardFile>> open(std::shared_ptr<const ShardFile> stored,
                                                       const std::string& name,
                                                       std::int64_t max_inflated_bytes,
                                                       const std::stop_token& stop);

  std::int64_t size() const override { return plain_.bytes; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  std::shared_ptr<const ByteSource> fetch(std::span<const ByteRange> ranges,
                                          const std::stop_token& stop) const override {
    return stored_->fetch(ranges, stop);
  }
  std::shared_ptr<const ByteSource> pass(const std::stop_token& stop) const override;
  bool changed() const override { return stored_->changed(); }
  bool inflated() const override { return true; }
  const std::string& problem() const override { return plain_.problem; }
  const std::string& unread() const override { return plain_.unread; }

 private:
  InflatedShard(std::shared_ptr<const ShardFile> stored, Decompressed plain);
  Result<std::size_t> read_stored(std::int64_t offset,
                                  std::span<std::byte> destination) const override {
    return stored_->read_at(offset, destination);
  }

  const std::shared_ptr<const ShardFile> stored_;
  const Decompressed plain_;
};

}  // namespace isocost
