#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// A part of another source, which must outlive it. Const-safe.
class SourceSlice final : public ByteSource {
 public:
  /// `offset` and `bytes` lie within the source.
  SourceSlice(const ByteSource& whole, std::int64_t offset, std::int64_t bytes)
      : whole_(whole), offset_(offset), bytes_(bytes) {}

  std::int64_t size() const override { return bytes_; }

  Result<std::size_t> read_at(std::int64_t offset,
                              std::span<std::byte> destination) const override {
    if (offset < 0) return whole_.read_at(offset, destination);
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(0, bytes_ - offset));
    const std::size_t most = std::min(left, destination.size());
    if (most == 0) return std::size_t{0};
    return whole_.read_at(offset_ + offset, destination.first(most));
  }

 private:
  const ByteSource& whole_;
  std::int64_t offset_;
  std::int64_t bytes_;
};

}  // namespace isocost
