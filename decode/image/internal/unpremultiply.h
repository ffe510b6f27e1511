#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// Divides the colours of RGBA by their opacity, as Pillow does; those that cannot be seen are
/// black.
inline void unpremultiply(std::span<std::uint8_t> rgba) {
  for (std::size_t i = 0; i + 4 <= rgba.size(); i += 4) {
    const unsigned alpha = rgba[i + 3];
    for (std::size_t c = i; c < i + 3; ++c) {
      const unsigned value = alpha == 0 ? 0U : rgba[c] * 255U / alpha;
      rgba[c] = static_cast<std::uint8_t>(std::min(value, 255U));
    }
  }
}

}  // namespace isocost
