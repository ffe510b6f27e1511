#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/byte_source.h"
#include "base/mutex.h"
#include "base/result.h"

namespace isocost {

/// A source that remembers its first failed read, because the decoder that meets it may report
/// damaged data. Const-safe.
class WatchedSource final : public ByteSource {
 public:
  explicit WatchedSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  std::int64_t size() const override { return source_->size(); }
  Result<std::size_t> read_at(std::int64_t offset,
                              std::span<std::byte> destination) const override {
    auto read = source_->read_at(offset, destination);
    if (!read) remember(read.error());
    return read;
  }

  std::optional<Error> failure() const ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return failure_;
  }

 private:
  void remember(const Error& error) const ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!failure_) failure_ = error;
  }

  const std::unique_ptr<ByteSource> source_;
  mutable Mutex mutex_;
  mutable std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
