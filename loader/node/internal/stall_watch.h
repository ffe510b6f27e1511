#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"

namespace isocost {

/// Watches whether training continues: a node that serves hears that a rank has trained or, while
/// it need not, plans and sends. If none of these happens for the time-out, it announces the
/// obstacle, announces it again when it changes, and announces when training continues. Time in
/// which this process did not run does not count. Has a thread of its own; the destructor joins it.
class StallWatch {
 public:
  struct Activity {
    bool expected = false;      ///< Ranks train, or are lost, so something should happen.
    std::uint64_t changes = 0;  ///< Grows whenever something happens.
  };
  struct Options {
    std::chrono::nanoseconds timeout{};  ///< 0: nothing is watched.
    std::function<Activity()> activity;
    std::function<std::string()> obstacle;  ///< Returns what training waits for.
    LogSink announce;
  };
  /// The functions are called on the watch's thread.
  explicit StallWatch(Options options);

  struct Stall {
    double seconds = 0;  ///< Seconds since something happened last; 0: training continues.
    std::string obstacle;
  };
  /// Returns the present stall. Thread-safe.
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
  std::string told_;     // the obstacle that was announced last; empty: none
  std::jthread thread_;  // declared last, so it is joined first
};

}  // namespace isocost
