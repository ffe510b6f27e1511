#include "base/memory_budget.h"

#include <algorithm>
#include <string>
#include <utility>

namespace isocost {

MemoryBudget::Grant::Grant(Grant&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryBudget::Grant& MemoryBudget::Grant::operator=(Grant&& other) noexcept {
  if (this != &other) {
    release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void MemoryBudget::Grant::shrink(std::int64_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  budget_->give_back(bytes_ - bytes);
  bytes_ = bytes;
}

Result<MemoryBudget::Grant> MemoryBudget::acquire(std::int64_t bytes, const std::stop_token& stop) {
  if (bytes > limit_) {
    return Error(ErrorCode::kResourceExhausted, "needs " + std::to_string(bytes) +
                                                    " bytes, the memory budget is " +
                                                    std::to_string(limit_));
  }
  const MutexLock lock(mutex_);
  const void* ticket = &bytes;  // unique while this call blocks
  waiting_.push_back(ticket);
  const bool granted = changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) {
    return waiting_.front() == ticket && used_ + bytes <= limit_;
  });
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ticket));
  changed_.notify_all();  // the next request may fit, too
  if (!granted) return Error(ErrorCode::kCancelled, "stopped while waiting for memory");
  return take(bytes);
}

std::optional<MemoryBudget::Grant> MemoryBudget::try_acquire(std::int64_t bytes,
                                                             std::int64_t most) {
  const MutexLock lock(mutex_);
  if (!waiting_.empty() || bytes > std::min(most, limit_) - used_) return std::nullopt;
  return take(bytes);
}

MemoryBudget::Grant MemoryBudget::take(std::int64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return Grant(this, bytes);
}

std::int64_t MemoryBudget::in_use() const {
  const MutexLock lock(mutex_);
  return used_;
}

std::int64_t MemoryBudget::peak() const {
  const MutexLock lock(mutex_);
  return peak_;
}

void MemoryBudget::give_back(std::int64_t bytes) {
  {
    const MutexLock lock(mutex_);
    used_ -= bytes;
  }
  changed_.notify_all();
}

}  // namespace isocost
