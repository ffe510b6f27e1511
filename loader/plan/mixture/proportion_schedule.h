#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Most breakpoints of a source.
inline constexpr std::size_t kMostBreakpoints = 1000;

/// A source's proportion from a step on.
struct Breakpoint {
  std::uint64_t step = 0;
  double proportion = 0;  ///< Relative to the other sources; 0: no samples.

  bool operator==(const Breakpoint&) const = default;
};

/// The proportion of a source at every step. Before the first breakpoint it is 0; each breakpoint
/// holds until the next one. Value type.
struct ProportionSchedule {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

  std::vector<Breakpoint> points;  ///< In the order of their steps.
  /// Whether shares run linearly from one breakpoint to the next, instead of being held.
  bool ramp = false;
  /// The step from which on the source is dropped: its proportion is 0, whatever the breakpoints
  /// say, and nobody foresees it.
  std::uint64_t end = kNoEnd;

  bool operator==(const ProportionSchedule&) const = default;

  /// Checks the breakpoints. Errors: kInvalidArgument that begins with `source`, the place where
  /// they stand.
  Status validate(std::string_view source) const;
};

}  // namespace isocost
