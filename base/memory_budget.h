#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <stop_token>

#include "base/mutex.h"
#include "base/result.h"

namespace isocost {

/// Limits the bytes that decoding may hold at once. Requests are served in their order, so small
/// ones cannot starve a large one. Thread-safe; must outlive its grants.
class MemoryBudget {
 public:
  /// Granted bytes, returned to the budget on destruction. Move-only; may be released on any
  /// thread.
  class Grant {
   public:
    Grant() = default;
    Grant(Grant&& other) noexcept;
    Grant& operator=(Grant&& other) noexcept;
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    ~Grant() { release(); }

    std::int64_t bytes() const { return bytes_; }
    /// Returns all but `bytes` to the budget, for example when a decoder has freed its scratch
    /// memory and keeps its output. Does nothing if the grant is not larger.
    void shrink(std::int64_t bytes);
    void release() { shrink(0); }

   private:
    friend class MemoryBudget;
    Grant(MemoryBudget* budget, std::int64_t bytes) : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    std::int64_t bytes_ = 0;
  };

  /// A place in the queue of requests, for a caller that does not wait. Its destructor gives up the
  /// place, or the grant if it was not taken. A request beyond the whole limit is never granted,
  /// and would keep all others waiting.
  class Request {
   public:
    Request(MemoryBudget& budget, std::int64_t bytes);
    ~Request();
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    std::int64_t bytes() const { return bytes_; }
    /// Returns the grant if the request's turn has come; never blocks. Once it has returned one, it
    /// returns nothing.
    std::optional<Grant> take();

   private:
    MemoryBudget& budget_;
    const std::int64_t bytes_;
  };

  explicit MemoryBudget(std::int64_t limit_bytes) : limit_(limit_bytes) {}

  /// Blocks until `bytes` are available. Errors: kResourceExhausted if they exceed the whole
  /// budget, kCancelled.
  Result<Grant> acquire(std::int64_t bytes, const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  /// Returns a grant if no request waits and at most `most` bytes are then in use; else nothing.
  /// Never blocks.
  std::optional<Grant> try_acquire(std::int64_t bytes, std::int64_t most = INT64_MAX)
      ISOCOST_EXCLUDES(mutex_);

  std::int64_t limit() const { return limit_; }
  std::int64_t in_use() const ISOCOST_EXCLUDES(mutex_);
  std::int64_t peak() const ISOCOST_EXCLUDES(mutex_);

 private:
  void count(std::int64_t bytes) ISOCOST_REQUIRES(mutex_);
  void give_back(std::int64_t bytes) ISOCOST_EXCLUDES(mutex_);
  void grant_in_turn() ISOCOST_REQUIRES(mutex_);

  const std::int64_t limit_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<const Request*> waiting_ ISOCOST_GUARDED_BY(mutex_);
  std::set<const Request*> granted_ ISOCOST_GUARDED_BY(mutex_);  // granted, and not taken yet
  std::int64_t used_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::int64_t peak_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

}  // namespace isocost
