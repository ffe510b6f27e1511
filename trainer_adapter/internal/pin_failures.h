#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace isocost {

/// The reason why blocks of shared memory cannot be registered with CUDA, to be logged once. A
/// microbatch's `pin` finds it, on any thread, possibly after the client is gone; the client's
/// thread logs it. Thread-safe.
class PinFailures {
 public:
  PinFailures();

  /// Returns a Microbatch::pin that calls a block's `pin` and stores the reason of a failure. A
  /// process that does not use CUDA (kNotFound) is no failure.
  std::function<bool()> watch(std::function<Status()> pin) const;
  /// Returns the first failure, once.
  std::optional<std::string> take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isocost
