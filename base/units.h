#pragma once

#include <chrono>
#include <cstdint>

namespace isocost {

/// Predicted time, in seconds. Measured time is `std::chrono::nanoseconds` from a monotonic clock.
using Seconds = std::chrono::duration<double>;

/// Range of plausible seconds of a module for one microbatch. Measurements outside are refused.
inline constexpr double kLeastModuleSeconds = 1e-9;
inline constexpr double kMostModuleSeconds = 86'400;

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

}  // namespace isocost
