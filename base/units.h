#pragma once

#include <chrono>
#include <cstdint>

namespace isocost {

/// Modelled time, in seconds. Measured time is `std::chrono::nanoseconds` from a monotonic clock.
using Seconds = std::chrono::duration<double>;

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

}  // namespace isocost
