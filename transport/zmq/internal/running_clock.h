#pragma once

#include <algorithm>
#include <chrono>

namespace isocost {

/// Measures time in which its thread could run. A process that was stopped (SIGSTOP, a suspended or
/// migrated machine) or starved must not mistake its own absence for its peer's silence, so the
/// time between two calls counts as `most` at most. Single-thread.
class RunningClock {
 public:
  using Clock = std::chrono::steady_clock;
  /// `most`: a little more than the longest time between two calls while the thread runs.
  explicit RunningClock(std::chrono::nanoseconds most) : most_(most) {}

  Clock::time_point now() { return at(Clock::now()); }
  /// Returns the time at which the machine's clock shows `real`.
  Clock::time_point at(Clock::time_point real) {
    time_ += std::clamp<std::chrono::nanoseconds>(real - last_, std::chrono::nanoseconds(0), most_);
    last_ = real;
    return time_;
  }

 private:
  const std::chrono::nanoseconds most_;
  Clock::time_point last_ = Clock::now();
  Clock::time_point time_ = last_;
};

}  // namespace isocost
