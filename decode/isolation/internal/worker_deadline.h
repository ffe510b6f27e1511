#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stop_token>

namespace isocost {

/// Decides when a worker that decodes a sample is ended: a stop was requested, it has used up its
/// CPU time, or it stands still. Its owner asks after each wait for an answer. Single-thread.
class WorkerDeadline {
 public:
  enum class Due : std::uint8_t {
    kNo,
    kStopped,     ///< A stop was requested.
    kOverTime,    ///< The worker has exceeded its limit of CPU time, and some grace.
    kStoodStill,  ///< The worker has used no CPU time for as long as the limit, at least a second.
  };

  /// `limit`: CPU time that decoding a sample may take, which the worker checks, too.
  /// `cpu_time`: CPU time of the process when the sample began.
  WorkerDeadline(std::chrono::nanoseconds limit, std::chrono::nanoseconds cpu_time)
      : limit_(limit), begun_(cpu_time), used_(cpu_time) {}

  /// Returns whether the worker, which has used `cpu_time` and sent an answer or not, is to be
  /// ended. `waited`: time for which its owner has waited since the last call; the machine may have
  /// been suspended for longer, which does not count.
  Due after_wait(std::chrono::nanoseconds cpu_time, std::chrono::nanoseconds waited, bool answered,
                 const std::stop_token& stop) {
    using std::chrono::nanoseconds;
    if (stop.stop_requested()) return Due::kStopped;
    if (cpu_time - begun_ > limit_ + kGrace) return Due::kOverTime;
    still_ = answered || cpu_time > used_ ? nanoseconds(0) : still_ + waited;
    used_ = cpu_time;
    return still_ > std::max<nanoseconds>(limit_, kLeastStill) ? Due::kStoodStill : Due::kNo;
  }

 private:
  static constexpr std::chrono::seconds kGrace{4};
  static constexpr std::chrono::seconds kLeastStill{1};

  const std::chrono::nanoseconds limit_;
  const std::chrono::nanoseconds begun_;
  std::chrono::nanoseconds used_;
  std::chrono::nanoseconds still_{0};  // time for which it has used no CPU time
};

}  // namespace isocost
