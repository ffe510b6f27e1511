#include "cli/lab/barrier.h"

namespace isocost::cli {

bool Barrier::join(const std::stop_token& stop, std::chrono::steady_clock::time_point deadline) {
  {
    const MutexLock lock(mutex_);
    const std::uint64_t round = round_;
    if (++waiting_ < size_) {
      return all_joined_.wait_until(mutex_, stop, deadline,
                                    [&]() ISOCOST_REQUIRES(mutex_) { return round_ != round; });
    }
  }
  // The others wait for the round to end, so the lock is not needed to keep them apart.
  if (at_barrier_) at_barrier_();
  {
    const MutexLock lock(mutex_);
    waiting_ = 0;
    ++round_;
  }
  all_joined_.notify_all();
  return true;
}

}  // namespace isocost::cli
