#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isocost {

/// What each new position of a side takes of the old ones. A weight is a fixed-point number with
/// kWeightBits behind the point, kept as high * 2^kLowBits + low: products of two 16-bit numbers
/// are what processors multiply and add in pairs.
struct ResampleTaps {
  static constexpr int kWeightBits = 22;
  static constexpr int kLowBits = 11;
  struct Window {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };
  std::vector<Window> windows;
  std::size_t stride = 0;  ///< Weights per window, a multiple of 4; those beyond `count` are 0.
  std::vector<std::int16_t> high;
  std::vector<std::int16_t> low;
};

constexpr std::size_t kResampleBatch = 4;
/// How far beyond a row's end `columns` reads. What it finds there does not matter.
constexpr std::size_t kResampleSlack = 16;

/// The inner loops. All kernels compute the same integers.
struct ResampleKernels {
  /// Gives each of four packed RGB rows its new width. The same row may appear twice.
  void (*columns)(const std::array<const std::uint8_t*, kResampleBatch>& from,
                  const ResampleTaps& taps, const std::array<std::uint8_t*, kResampleBatch>& to);
  /// Makes a row of `bytes` of the old rows that its window covers. `from` has an even number of
  /// them: an odd window's last one appears twice.
  void (*rows)(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
               std::size_t bytes, std::uint8_t* to);
};

/// Plain C++.
const ResampleKernels& portable_kernels();
/// AVX2 where the processor has it, otherwise the portable ones.
const ResampleKernels& fastest_kernels();

}  // namespace isocost
