#include "cli/lab/barrier.h"

namespace isocost::cli {

bool Barrier::join(const std::stop_token& stop, std::chrono::steady_clock::time_point deadline) {
  const MutexLock lock(mutex_);
  const std::uint64_t round = round_;
  if (++waiting_ == size_) {
    waiting_ = 0;
    ++round_;
    if (at_barrier_) at_barrier_();
    all_joined_.notify_all();
    return true;
  }
  return all_joined_.wait_until(mutex_, stop, deadline,
                                [&]() ISOCOST_REQUIRES(mutex_) { return round_ != round; });
}

}  // namespace isocost::cli
