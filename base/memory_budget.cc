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

MemoryBudget::Request::Request(MemoryBudget& budget, std::int64_t bytes)
    : budget_(budget), bytes_(bytes) {
  const MutexLock lock(budget_.mutex_);
  budget_.waiting_.push_back(this);
  budget_.grant_in_turn();
}

MemoryBudget::Request::~Request() {
  const MutexLock lock(budget_.mutex_);
  std::erase(budget_.waiting_, this);
  if (budget_.granted_.erase(this) > 0) budget_.used_ -= bytes_;
  budget_.grant_in_turn();  // the next request may fit
}

std::optional<MemoryBudget::Grant> MemoryBudget::Request::take() {
  const MutexLock lock(budget_.mutex_);
  if (budget_.granted_.erase(this) == 0) return std::nullopt;
  return Grant(&budget_, bytes_);
}

Result<MemoryBudget::Grant> MemoryBudget::acquire(std::int64_t bytes, const std::stop_token& stop) {
  if (bytes > limit_) {
    return Error(ErrorCode::kResourceExhausted, "needs " + std::to_string(bytes) +
                                                    " bytes, the memory budget is " +
                                                    std::to_string(limit_));
  }
  Request request(*this, bytes);
  {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, stop,
                  [&]() ISOCOST_REQUIRES(mutex_) { return granted_.contains(&request); });
  }
  auto grant = request.take();
  if (!grant) return Error(ErrorCode::kCancelled, "stopped while waiting for memory");
  return *std::move(grant);
}

std::optional<MemoryBudget::Grant> MemoryBudget::try_acquire(std::int64_t bytes,
                                                             std::int64_t most) {
  const MutexLock lock(mutex_);
  if (!waiting_.empty() || bytes > std::min(most, limit_) - used_) return std::nullopt;
  count(bytes);
  return Grant(this, bytes);
}

void MemoryBudget::count(std::int64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, used_);
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
  const MutexLock lock(mutex_);
  used_ -= bytes;
  grant_in_turn();
}

void MemoryBudget::grant_in_turn() {
  bool granted = false;
  while (!waiting_.empty() && used_ + waiting_.front()->bytes() <= limit_) {
    const Request& request = *waiting_.front();
    waiting_.pop_front();
    granted_.insert(&request);
    count(request.bytes());
    granted = true;
  }
  if (granted) changed_.notify_all();
}

}  // namespace isocost
