#pragma once

#include <cstddef>
#include <cstdint>

namespace isocost {

inline constexpr std::ptrdiff_t kRgbBytes = 3;  ///< Bytes of a pixel.

/// Returns the bytes of a row of packed RGB.
constexpr std::size_t rgb_row_bytes(std::int32_t width) {
  return static_cast<std::size_t>(width) * kRgbBytes;
}

}  // namespace isocost
