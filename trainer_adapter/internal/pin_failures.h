#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace isocost {

/// Why blocks of shared memory cannot be registered with CUDA, told once. A microbatch's `pin`
/// finds out, on any thread, and may do so after the client is gone; the client's thread tells.
/// Thread-safe.
class PinFailures {
 public:
  PinFailures();

  /// Returns a Microbatch::pin that calls a block's `pin` and keeps why it failed. That the process
  /// does not use CUDA (kNotFound) is no failure.
  std::function<bool()> watch(std::function<Status()> pin) const;
  /// Returns the first failure, once.
  std::optional<std::string> take();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isocost
