#include "cli/lab/barrier.h"

#include <algorithm>

namespace isocost::cli {

std::optional<EmulatedTime> Barrier::join(EmulatedTime now, const std::stop_token& stop,
                                          EmulatedTime deadline) {
  EmulatedTime latest;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t round = round_;
    joined_ = waiting_ == 0 ? now : std::max(joined_, now);
    if (++waiting_ < size_) {
      const bool ended = all_joined_.wait_until(
          mutex_, stop, deadline, [&]() ISOCOST_REQUIRES(mutex_) { return round_ != round; });
      return ended ? std::optional(latest_) : std::nullopt;
    }
    latest = joined_;
  }
  // The others wait for the round to end, so the lock is not needed to keep them apart.
  if (at_barrier_) at_barrier_(latest);
  {
    const MutexLock lock(mutex_);
    waiting_ = 0;
    latest_ = latest;
    ++round_;
  }
  all_joined_.notify_all();
  return latest;
}

}  // namespace isocost::cli
