#pragma once

#include <chrono>
#include <cstdint>

namespace isocost {

/// Predicted time, in seconds. Measured time is `std::chrono::nanoseconds` from a monotonic clock.
using Seconds = std::chrono::duration<double>;

/// Range of plausible seconds of a module for one microbatch. Measurements outside are refused.
inline constexpr double kLeastModuleSeconds = 1e-9;
inline constexpr double kMostModuleSeconds = 86'400;
/// Value for the seconds of a module that was not measured.
inline constexpr double kNotMeasured = -1;

/// Returns whether seconds are in that range; false for NaN.
constexpr bool is_module_time(double seconds) {
  return seconds >= kLeastModuleSeconds && seconds <= kMostModuleSeconds;
}

/// Returns whether a trainer may report these seconds of a module: a time as above, 0 for a module
/// without work, or kNotMeasured.
constexpr bool is_reportable(double seconds) {
  return is_module_time(seconds) || seconds == 0 || seconds == kNotMeasured;
}

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

}  // namespace isocost
