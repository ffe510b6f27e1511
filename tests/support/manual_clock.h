#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace isocost {

/// A clock that moves only when a test moves it. Must outlive what it is given to.
class ManualClock {
 public:
  MonotonicClock clock() {
    return [this] { return MonotonicTime(std::chrono::nanoseconds(now_ns_)); };
  }
  void advance(std::chrono::nanoseconds by) { now_ns_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_ns_ = 0;
};

}  // namespace isocost
