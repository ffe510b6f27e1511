#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/machine_error.h"

namespace isocost {

/// Repeats reads that the machine refuses, with growing intervals, until they succeed or until
/// reads have failed for the time-out: a shard that vanished, a file system that is away. Meanwhile
/// the node is paused: no sample is lost, and no step is delivered without one of its samples.
/// Internally synchronised; it neither logs nor reads while it holds its lock.
class ReadRetry {
 public:
  struct Options {
    std::chrono::nanoseconds timeout{0};
    std::chrono::nanoseconds first_interval = std::chrono::milliseconds(50);
    std::chrono::nanoseconds quiet =
        std::chrono::seconds(1);  ///< Shorter pauses are not announced.
    LogSink announce = {};        ///< Receives a pause, its cause every ten seconds, and its end.
  };
  explicit ReadRetry(Options options) : options_(std::move(options)) {}

  /// Calls `read`, which returns a Result, until it returns something other than a machine error. A
  /// read that was cancelled though nobody asks for a stop is one, too. Blocks. Errors: others of
  /// `read`; kIo with the last machine error once reads have failed for the time-out (later calls
  /// then fail at their first try); kCancelled.
  template <typename Read>
  auto run(const std::stop_token& stop, Read read) -> decltype(read()) {
    Pause pause(*this);
    for (;;) {
      auto result = read();
      if (result) pause.succeed();
      if (result || !is_refused(result.error().code(), stop)) return result;
      ISOCOST_TRY(pause.wait(result.error(), stop));
    }
  }

  /// Returns the seconds since reads began to fail; 0: they do not fail. Thread-safe.
  double paused_s() const ISOCOST_EXCLUDES(mutex_);

 private:
  // One call of `run`. The node counts as paused while any call waits after a failed read.
  class Pause {
   public:
    explicit Pause(ReadRetry& retry) : retry_(retry), interval_(retry.options_.first_interval) {}
    ~Pause() {
      if (waits_) retry_.leave(succeeded_);
    }
    void succeed() { succeeded_ = true; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    Status wait(const Error& cause, const std::stop_token& stop);

   private:
    ReadRetry& retry_;
    std::chrono::nanoseconds interval_;
    bool waits_ = false;
    bool succeeded_ = false;
  };

  static bool is_refused(ErrorCode code, const std::stop_token& stop) {
    return is_machine_error(code) || (code == ErrorCode::kCancelled && !stop.stop_requested());
  }
  void enter() ISOCOST_EXCLUDES(mutex_);
  void leave(bool succeeded) ISOCOST_EXCLUDES(mutex_);
  void tell(const Error& cause) ISOCOST_EXCLUDES(mutex_);
  Status wait(const Error& cause, std::chrono::nanoseconds interval, const std::stop_token& stop)
      ISOCOST_EXCLUDES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::size_t waiting_ ISOCOST_GUARDED_BY(mutex_) = 0;
  bool timed_out_ ISOCOST_GUARDED_BY(mutex_) = false;
  MonotonicTime since_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<MonotonicTime> told_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
