#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Largest number of a step of a job: the wire has 32 bits for it.
inline constexpr std::int64_t kLastStep = std::numeric_limits<std::uint32_t>::max();

/// Steps from `first` to `last`, both included.
struct StepRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  bool operator==(const StepRange&) const = default;
};

/// Steps that are left out of training: disjoint ranges in ascending order, joined where they
/// touch. A *position* is a step's number when those left out are counted, a *step* its number when
/// they are not. Value type; const-safe.
class SkippedSteps {
 public:
  /// Most ranges.
  static constexpr std::size_t kMost = 1000;

  SkippedSteps() = default;
  /// Reads texts such as "1200-1210" and "7". They may overlap and stand in any order. Errors:
  /// kInvalidArgument with the text and a remedy.
  static Result<SkippedSteps> parse(const std::vector<std::string>& texts);

  const std::vector<StepRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  /// Returns the ranges as `parse` reads them.
  std::vector<std::string> texts() const;

  /// Returns the position of a step.
  std::uint64_t position_of(std::uint64_t step) const;
  /// Returns the number of steps among the first `positions`.
  std::uint64_t steps_before(std::uint64_t positions) const;
  /// Returns the first step that has another position than with `other`; `step` at most.
  std::uint64_t first_difference(const SkippedSteps& other, std::uint64_t step) const;

  bool operator==(const SkippedSteps&) const = default;

 private:
  std::vector<StepRange> ranges_;
};

}  // namespace isocost
