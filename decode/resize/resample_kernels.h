#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/resize/simd_target.h"

namespace isocost {

/// Bytes of the widest vector.
struct alignas(64) ResampleVector {
  std::array<std::uint8_t, 64> bytes{};
};

/// Weights of the old positions for each new position of a side: fixed-point numbers with
/// kWeightBits after the point.
struct ResampleTaps {
  static constexpr int kWeightBits = 22;
  /// Bits after the point that coarse weights use; the others are 0.
  static constexpr int kCoarseBits = 14;
  struct Window {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };
  bool is_coarse = false;
  std::vector<Window> windows;
  /// Weights per window, a multiple of kTapsTogether; those beyond `count` are 0.
  std::size_t stride = 0;
  /// Weights and `stride`, possibly repacked by the kernels' `pack_columns` or `pack_rows`.
  std::vector<std::int32_t> weights;
  std::vector<ResampleVector> vectors;
};

constexpr std::size_t kTapsTogether = 4;
constexpr std::size_t kResampleBatch = 8;
/// Number of vectors that `columns` may write for windows of `stride` weights: old pixels of a
/// batch that one window takes, and some ahead, three bytes a value.
constexpr std::size_t kPixelsAhead = 128;
constexpr std::size_t resample_scratch(std::size_t stride) {
  constexpr std::size_t kPixelBytes = kResampleBatch * 3 * 3;
  return (stride + kPixelsAhead) * kPixelBytes / sizeof(ResampleVector) + 1;
}
/// Bytes beyond a row's end that `columns` may read. Their values do not matter.
constexpr std::size_t kResampleSlack = 128;

/// The inner loops. All kernels compute the same integers.
struct ResampleKernels {
  /// Split weights into the parts that `columns` and `rows` multiply.
  void (*pack_columns)(ResampleTaps& taps);
  void (*pack_rows)(ResampleTaps& taps);
  /// Gives each packed RGB row of a batch its new width. The same row may appear twice. `scratch`
  /// has resample_scratch(stride) vectors, with the stride before packing.
  void (*columns)(const std::array<const std::uint8_t*, kResampleBatch>& from,
                  const ResampleTaps& taps, const std::array<std::uint8_t*, kResampleBatch>& to,
                  ResampleVector* scratch);
  /// Makes a row of `bytes` from the old rows that its window covers. `from` has a multiple of
  /// kTapsTogether of them: a window's last one is repeated.
  void (*rows)(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
               std::size_t bytes, std::uint8_t* to);
};

/// Returns plain C++ kernels, the reference for the others.
const ResampleKernels& portable_kernels();
/// Returns the kernels for the processor's vectors, chosen at run time.
const ResampleKernels& fastest_kernels();

using ResampleTarget = SimdTarget<ResampleKernels>;
/// Returns the kernels for every set of vector instructions that this processor has. For tests:
/// while it runs, fastest_kernels must not be called for the first time.
std::vector<ResampleTarget> resample_targets();

}  // namespace isocost
