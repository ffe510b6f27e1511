#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace isocost::test {

/// A sound that scripts in Python make, too (tests/decode/recipes/test_sound.py): interleaved
/// samples of 16 bits, divided by 2^15. By the number's remainder loud noise, noise of a few steps,
/// a tone, a tone in noise that comes and goes, clicks, silence with a click at its end.
inline std::vector<float> test_sound(int number, std::int32_t channels, std::int64_t frames) {
  const auto noise = [](std::uint32_t index) {
    std::uint32_t value = index * 2'654'435'761U;
    value ^= value >> 15;
    value *= 2'246'822'519U;
    return static_cast<std::int32_t>(value >> 16) - 32'768;
  };
  const auto seed = static_cast<std::uint32_t>(number);
  const auto sample = [&](std::uint32_t at, std::uint32_t channel) {
    const auto grain =
        noise(at * static_cast<std::uint32_t>(channels) + channel + 1'000'003U * seed);
    const std::uint32_t phase = (at * (3 + seed % 90) + 40 * channel) % 256;
    const auto tone = static_cast<std::int32_t>(
        std::lround(12'000 * std::sin(2 * std::numbers::pi * phase / 256)));
    // Python's quotients are rounded down.
    switch (number % 6) {
      case 0:
        return grain >> 1;
      case 1:
        return grain >> 13;
      case 2:
        return tone;
      case 3:
        return (at / 4000 % 2 == 0 ? tone : 0) + (grain >> 8);
      case 4:
        return (at + 100 * channel) % 1777 == 0 ? 30'000 : 0;
      default:
        return at + 1 == static_cast<std::uint32_t>(frames) ? 20'000 : 0;
    }
  };
  std::vector<float> sound;
  sound.reserve(static_cast<std::size_t>(frames * channels));
  for (std::int64_t at = 0; at < frames; ++at) {
    for (std::int32_t channel = 0; channel < channels; ++channel) {
      const std::int32_t value =
          sample(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(channel));
      sound.push_back(static_cast<float>(value) / 32'768.0F);
    }
  }
  return sound;
}

}  // namespace isocost::test
