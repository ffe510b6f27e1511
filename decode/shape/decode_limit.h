#pragma once

#include <chrono>
#include <stop_token>

#include "base/result.h"

namespace isocost {

/// Limit of decoding one sample: CPU time of the calling thread, so that a loaded machine, a slow
/// disk and a stopped process do not count against the sample; and a request to stop. Belongs to
/// the thread that constructed it.
class DecodeLimit {
 public:
  DecodeLimit() = default;  ///< Makes an object without a limit.
  /// Starts the time.
  explicit DecodeLimit(std::chrono::nanoseconds cpu_time, std::stop_token stop = {});

  /// Returns the CPU time that has been used.
  std::chrono::nanoseconds used() const;

  /// Checks whether to continue with a piece of work that began when `used()` was `begun` and of
  /// which the share `done` is done (0: not known). Cheap enough for each video frame. Errors:
  /// kCancelled; kResourceExhausted if the time is over, or if the rest of the work, at the rate
  /// measured until now, will take far more than the limit.
  Status check(std::chrono::nanoseconds begun, double done) const;

 private:
  std::chrono::nanoseconds limit_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds start_{};
  std::stop_token stop_;
};

}  // namespace isocost
