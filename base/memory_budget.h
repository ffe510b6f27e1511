#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/mutex.h"
#include "base/result.h"

namespace isocost {

/// Admission by bytes: what decoding may hold at once. First come, first served, so a large request
/// is not starved by small ones. Internally synchronised; must outlive its grants.
class MemoryBudget {
 public:
  /// Bytes granted; given back on destruction. Move-only, may be released on any thread.
  class Grant {
   public:
    Grant() = default;
    Grant(Grant&& other) noexcept;
    Grant& operator=(Grant&& other) noexcept;
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    ~Grant() { release(); }

    std::int64_t bytes() const { return bytes_; }
    /// Gives back all but `bytes` (no more than held): a decoder's scratch is freed, its output
    /// stays.
    void shrink(std::int64_t bytes);
    void release() { shrink(0); }

   private:
    friend class MemoryBudget;
    Grant(MemoryBudget* budget, std::int64_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    std::int64_t bytes_ = 0;
  };

  explicit MemoryBudget(std::int64_t limit_bytes) : limit_(limit_bytes) {}

  /// Waits for `bytes`. Errors: kResourceExhausted where that exceeds the whole budget (waiting
  /// would not help), kCancelled.
  Result<Grant> acquire(std::int64_t bytes, const std::stop_token& stop);
  /// Grants at once or not at all; never overtakes somebody who waits.
  std::optional<Grant> try_acquire(std::int64_t bytes);

  std::int64_t limit() const { return limit_; }
  std::int64_t in_use() const;
  std::int64_t peak() const;

 private:
  void give_back(std::int64_t bytes);

  const std::int64_t limit_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<const void*> waiting_ ISOCOST_GUARDED_BY(mutex_);
  std::int64_t used_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::int64_t peak_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

}  // namespace isocost
