#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace isocost {

/// Random access to the bytes of one member of a shard, or of a file. Probes read headers and video
/// decoders seek through it without loading the whole. Implementations are const-safe: several
/// threads may read at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::int64_t size() const = 0;

  /// Reads from `offset` into `destination` and returns the number of bytes read, which is smaller
  /// than requested only at the end (0 at or past it). Errors: kInvalidArgument for a negative
  /// offset, kIo.
  virtual Result<std::size_t> read_at(std::int64_t offset,
                                      std::span<std::byte> destination) const = 0;
};

/// A view of bytes in memory, which must outlive it. Immutable.
class MemoryByteSource final : public ByteSource {
 public:
  explicit MemoryByteSource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace isocost
