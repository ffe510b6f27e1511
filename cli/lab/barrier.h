#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/mutex.h"
#include "cli/lab/stage_clock.h"

namespace isocost::cli {

/// Lets `size` threads wait for each other, any number of times. The last thread to join runs
/// `at_barrier`, with the latest time at which one of them joined, while the others wait; after a
/// stop or a deadline these leave without waiting for it. Unlike std::barrier it can be stopped.
class Barrier {
 public:
  Barrier(std::size_t size, std::function<void(EmulatedTime latest)> at_barrier)
      : size_(size), at_barrier_(std::move(at_barrier)) {}

  /// Blocks until all threads have joined, and returns the latest of their times `now`. Returns
  /// nothing if a stop or the deadline came first.
  std::optional<EmulatedTime> join(EmulatedTime now, const std::stop_token& stop,
                                   EmulatedTime deadline) ISOCOST_EXCLUDES(mutex_);

 private:
  std::size_t size_;
  std::function<void(EmulatedTime)> at_barrier_;
  Mutex mutex_;
  ConditionVariable all_joined_;
  std::size_t waiting_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::uint64_t round_ ISOCOST_GUARDED_BY(mutex_) = 0;
  EmulatedTime joined_ ISOCOST_GUARDED_BY(mutex_);  // the latest so far in this round
  EmulatedTime latest_ ISOCOST_GUARDED_BY(mutex_);  // latest time of the last round
};

}  // namespace isocost::cli
