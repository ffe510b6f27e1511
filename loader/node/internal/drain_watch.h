#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "loader/node/internal/delivery_queue.h"

namespace isocost {

/// Says for which ranks a node waits that was asked to stop: at once, and then every few seconds.
/// Ends the wait after a limit. The thread ends with this object.
class DrainWatch {
 public:
  struct Options {
    /// Time that ranks have for the steps that they have begun; less than the 30 s that Kubernetes
    /// waits before it kills.
    std::chrono::milliseconds limit = std::chrono::seconds(20);
    /// Time between two lines of the log; at least 1 ms.
    std::chrono::milliseconds interval = std::chrono::seconds(5);
    std::function<UnfinishedRanks()> unfinished = {};
    std::function<std::string(std::int32_t rank)> name = {};
    LogSink log = {};
    std::function<void()> end = {};  ///< Called once, after `limit`.
  };
  explicit DrainWatch(Options options);

  /// Returns what to log: nothing if no rank is unfinished.
  static std::string text(const UnfinishedRanks& ranks, std::chrono::milliseconds left,
                          const std::function<std::string(std::int32_t rank)>& name);

 private:
  void watch(const std::stop_token& stop);

  const Options options_;
  Mutex mutex_;
  ConditionVariable never_;
  std::jthread thread_;  // declared last, so it is joined first
};

}  // namespace isocost
