#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// A window on a source, 4 KiB at a time: headers are read through it without an allocation, and
/// large segments are skipped without being read. Single-thread; the source must outlive it.
class HeaderWindow {
 public:
  static constexpr std::size_t kBytes = 4096;

  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): bytes_ counts only once read
  explicit HeaderWindow(const ByteSource& source) : source_(source), size_(source.size()) {}

  std::int64_t size() const { return size_; }

  /// Returns `n` <= kBytes bytes from `offset` >= 0, fewer only at the source's end. Valid until
  /// the next call. Errors: kIo.
  Result<ByteView> some(std::int64_t offset, std::size_t n);

  /// Returns the bytes of `some`. Errors: kIo; kCorrupt "cut off within `what`" if there are
  /// fewer than `n`.
  Result<ByteView> all(std::int64_t offset, std::size_t n, const char* what);

 private:
  const ByteSource& source_;
  std::int64_t size_;
  std::int64_t start_ = 0;
  std::size_t filled_ = 0;
  std::array<std::uint8_t, kBytes> bytes_;
};

}  // namespace isocost
