#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace isocost {

/// Collects log messages. Any thread.
class LogLines {
 public:
  LogSink sink() {
    return [this](LogLevel /*level*/, std::string_view text) {
      const MutexLock lock(mutex_);
      lines_.emplace_back(text);
    };
  }
  std::vector<std::string> lines() const {
    const MutexLock lock(mutex_);
    return lines_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> lines_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
