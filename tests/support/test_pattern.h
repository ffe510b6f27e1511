#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isocost::test {

/// A picture that scripts in Python make, too (tests/decode/test_pattern.py): packed RGB in tiles
/// of 16 by 16 pixels, in turn noise, a gradient, and noise in black and white.
inline std::vector<std::uint8_t> test_pattern(std::int32_t width, std::int32_t height) {
  const auto noise = [](std::uint32_t index) {
    std::uint32_t value = index * 2'654'435'761U;
    value ^= value >> 15;
    value *= 2'246'822'519U;
    return static_cast<std::uint8_t>(value >> 24);
  };
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                                3);
  std::uint32_t index = 0;
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      const std::int32_t tile = (x / 16 + y / 16) % 3;
      for (std::int32_t c = 0; c < 3; ++c, ++index) {
        const std::uint8_t grain = noise(index);
        const auto gradient = static_cast<std::uint8_t>(3 * x + 2 * y + 85 * c);
        const std::uint8_t extreme = grain >= 128 ? 255 : 0;
        rgb[index] = tile == 0 ? grain : tile == 1 ? gradient : extreme;
      }
    }
  }
  return rgb;
}

/// FNV-1a, 64 bits.
inline std::uint64_t fnv1a(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const std::uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3;
  return value;
}

}  // namespace isocost::test
