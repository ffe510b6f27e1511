#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>

#include "base/mutex.h"

namespace isocost::cli {

/// Lets `size` threads wait for each other, as often as they like. The last thread to join runs
/// `at_barrier` while the others wait; after a stop or a deadline these leave without waiting for
/// it. Unlike std::barrier it can be stopped.
class Barrier {
 public:
  Barrier(std::size_t size, std::function<void()> at_barrier)
      : size_(size), at_barrier_(std::move(at_barrier)) {}

  /// Blocks until all threads have joined. Returns false if a stop or the deadline came first.
  bool join(const std::stop_token& stop, std::chrono::steady_clock::time_point deadline)
      ISOCOST_EXCLUDES(mutex_);

 private:
  std::size_t size_;
  std::function<void()> at_barrier_;
  Mutex mutex_;
  ConditionVariable all_joined_;
  std::size_t waiting_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::uint64_t round_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

}  // namespace isocost::cli
