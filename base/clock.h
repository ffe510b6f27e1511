#pragma once

#include <chrono>
#include <functional>

namespace isocost {

using MonotonicTime = std::chrono::steady_clock::time_point;

/// Returns the present time, never earlier than a time that it returned before. Passed in, so that
/// a test can set the time. Callable from any thread.
using MonotonicClock = std::function<MonotonicTime()>;

/// Returns the machine's clock.
inline MonotonicClock steady_clock() {
  return [] { return std::chrono::steady_clock::now(); };
}

/// Returns the seconds from `start` to `end`.
inline double seconds_between(MonotonicTime start, MonotonicTime end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace isocost
