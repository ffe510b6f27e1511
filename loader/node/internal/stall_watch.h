#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"

namespace isocost {

/// Watches whether training goes on: a node that serves plans, sends, or hears that a rank has
/// trained. Where it does not for the time-out, it announces what is in the way, again when that
/// changes, and when training goes on. Time in which this process did not run does not count. Has a
/// thread of its own; the destructor joins it.
class StallWatch {
 public:
  struct Activity {
    bool expected = false;      ///< Ranks train, or are lost: something should happen.
    std::uint64_t changes = 0;  ///< Grows with everything that happens.
  };
  struct Options {
    std::chrono::nanoseconds timeout{};  ///< 0: nothing is watched.
    std::function<Activity()> activity;
    std::function<std::string()> obstacle;  ///< What is in the way.
    LogSink announce;
  };
  /// The functions are called on the watch's thread.
  explicit StallWatch(Options options);

  struct Stall {
    double seconds = 0;  ///< Since something happened last; 0: nothing is in the way.
    std::string obstacle;
  };
  /// Thread-safe.
  Stall stall() const ISOCOST_EXCLUDES(mutex_);

 private:
  void watch(const std::stop_token& stop);
  void look(std::chrono::nanoseconds passed);
  void begin(std::chrono::nanoseconds still);
  void end(bool goes_on);

  const Options options_;
  mutable Mutex mutex_;
  ConditionVariable never_;
  Stall stall_ ISOCOST_GUARDED_BY(mutex_);
  // Used on the watch's thread only:
  std::uint64_t changes_ = 0;
  std::chrono::nanoseconds still_{0};
  std::string told_;     // the obstacle that was told last; empty: none
  std::jthread thread_;  // last: joined first
};

}  // namespace isocost
