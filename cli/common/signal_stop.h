#pragma once

#include <stop_token>

namespace isocost::cli {

/// Requests a stop at SIGINT and SIGTERM. A second signal ends the process at once, with status
/// 128 + N. One object per process.
class SignalStop {
 public:
  SignalStop();
  ~SignalStop();
  SignalStop(const SignalStop&) = delete;
  SignalStop& operator=(const SignalStop&) = delete;
  std::stop_token token() const;
};

/// Returns the first signal that a SignalStop received, 0 if there was none. Thread-safe.
int first_stop_signal();

}  // namespace isocost::cli
