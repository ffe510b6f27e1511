#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/mutex.h"
#include "base/result.h"

namespace isocost {

/// Serves the small reads of a walk over a shard from two windows, each read in one piece: the
/// header of the next member is read before the parts of the present one are probed. One read of
/// the source therefore serves a large member, or many small ones. A window is small where reads
/// jump, and grows where they follow each other. Reads that do not move forward cost a window each.
/// Const-safe. Errors: those of the source, also for bytes of a window beyond the requested ones.
class ReadWindows final : public ByteSource {
 public:
  static constexpr std::size_t kSmallest = std::size_t{6} << 10;
  static constexpr std::size_t kLargest = std::size_t{128} << 10;

  explicit ReadWindows(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  std::int64_t size() const override { return source_->size(); }
  /// Reads bytes. Reads of kLargest bytes and more go to the source directly.
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override
      ISOCOST_EXCLUDES(mutex_);

 private:
  struct Window {
    std::int64_t start = 0;
    std::size_t filled = 0;
    std::vector<std::byte> bytes = {};  // as many as were requested of the source

    bool holds(std::int64_t offset, std::size_t count) const {
      const std::int64_t end = start + static_cast<std::int64_t>(filled);
      return offset >= start && offset <= end && static_cast<std::size_t>(end - offset) >= count;
    }
    // Returns whether the offset is in the window, or at most the window's length after its end.
    bool leads_to(std::int64_t offset) const {
      return offset >= start && offset - start <= 2 * static_cast<std::int64_t>(filled);
    }
  };
  Result<const Window*> window_of(std::int64_t offset, std::size_t count) const
      ISOCOST_REQUIRES(mutex_);
  Status fill(Window& window, std::int64_t offset, std::size_t count) const
      ISOCOST_REQUIRES(mutex_);

  const std::unique_ptr<ByteSource> source_;
  mutable Mutex mutex_;
  mutable std::array<Window, 2> windows_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
