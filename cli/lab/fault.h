#pragma once

#include <functional>
#include <optional>
#include <stop_token>

#include "base/mutex.h"
#include "base/result.h"

namespace isocost::cli {

/// The first failure of many threads, which stops all of them. A stop of `outer` stops them as
/// well. Thread-safe.
class Fault {
 public:
  explicit Fault(const std::stop_token& outer)
      : forward_(outer, [this] { source_.request_stop(); }) {}

  /// Keeps the error if it is the first one, and requests the stop.
  void raise(Error error) ISOCOST_EXCLUDES(mutex_);
  std::stop_token token() const { return source_.get_token(); }
  std::optional<Error> error() const ISOCOST_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::optional<Error> error_ ISOCOST_GUARDED_BY(mutex_);
  std::stop_source source_;
  std::stop_callback<std::function<void()>> forward_;
};

}  // namespace isocost::cli
