#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace isocost::cli {

using EmulatedTime = std::chrono::steady_clock::time_point;

/// The clock of one emulated stage: the machine's, or a virtual one, which waits advance instead of
/// blocking. Stages with virtual clocks exchange times where they wait for each other, so a step
/// takes exactly its modelled seconds. Single-thread.
class StageClock {
 public:
  explicit StageClock(bool is_virtual) : virtual_(is_virtual) {}

  EmulatedTime now() const { return virtual_ ? now_ : EmulatedTime::clock::now(); }
  /// Returns at once if `when` has passed.
  void wait_until(EmulatedTime when) {
    if (virtual_) {
      now_ = std::max(now_, when);
    } else {
      std::this_thread::sleep_until(when);
    }
  }

 private:
  bool virtual_;
  EmulatedTime now_{};
};

}  // namespace isocost::cli
