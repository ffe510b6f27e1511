#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace isocost {

/// Collects log messages. Any thread.
class LogLines {
 public:
  /// Returns a sink that may outlive this object, as where a test ends before its node.
  LogSink sink() {
    return [kept = kept_](LogLevel /*level*/, std::string_view text) {
      const MutexLock lock(kept->mutex);
      kept->lines.emplace_back(text);
    };
  }
  std::vector<std::string> lines() const {
    const MutexLock lock(kept_->mutex);
    return kept_->lines;
  }

 private:
  struct Kept {
    Mutex mutex;
    std::vector<std::string> lines ISOCOST_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace isocost
