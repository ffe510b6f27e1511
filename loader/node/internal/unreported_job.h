#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace isocost {

/// Notices a job of which no rank reports measured seconds, so that its costs are not corrected.
/// Single-thread.
class UnreportedJob {
 public:
  /// Steps that ranks acknowledge before they are taken to report nothing.
  static constexpr std::uint64_t kSteps = 8;

  void begin_job() { is_known_ = false; }
  void reported() { is_known_ = true; }
  /// Returns, once in a job, what to log when ranks have acknowledged this many of its steps.
  std::optional<std::string> acknowledged(std::uint64_t steps) {
    if (steps < kSteps || std::exchange(is_known_, true)) return std::nullopt;
    return "no rank has reported measured seconds in " + std::to_string(kSteps) +
           " steps, so costs are not corrected: report each microbatch (C++: loader.report, "
           "Python: loader.timed), or see that the model profile fits";
  }

 private:
  bool is_known_ = false;  // whether a rank has reported, or it was said that none has
};

}  // namespace isocost
