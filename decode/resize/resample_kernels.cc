#include "decode/resize/resample_kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace isocost {
namespace {

constexpr int kWeightBits = ResampleTaps::kWeightBits;
/// Added before the shift, it rounds to the nearest. No sum overflows: a window's positive weights
/// add up to less than 1.3, its negative ones to more than -0.3.
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void pack(ResampleTaps& /*taps*/) {}

void columns_of_row(const std::uint8_t* row, const ResampleTaps& taps, std::uint8_t* to) {
  const std::int32_t* weights = taps.weights.data();
  for (const auto [first, count] : taps.windows) {
    std::array<std::int32_t, 3> sums = {kHalf, kHalf, kHalf};
    const std::uint8_t* at = row + static_cast<std::ptrdiff_t>(first) * 3;
    for (std::int32_t i = 0; i < count; ++i, at += 3) {
      for (std::size_t c = 0; c < 3; ++c) sums[c] += at[c] * weights[i];
    }
    for (const std::int32_t sum : sums) *to++ = rounded(sum);
    weights += taps.stride;
  }
}

void columns(const std::array<const std::uint8_t*, kResampleBatch>& from, const ResampleTaps& taps,
             const std::array<std::uint8_t*, kResampleBatch>& to, ResampleVector* /*scratch*/) {
  for (std::size_t i = 0; i < kResampleBatch; ++i) columns_of_row(from[i], taps, to[i]);
}

/// A few columns at a time, whose sums stay in the first-level cache.
constexpr std::size_t kBlock = 256;

void rows(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
          std::size_t bytes, std::uint8_t* to) {
  const auto count = static_cast<std::size_t>(taps.windows[window].count);
  const std::int32_t* weights = taps.weights.data() + window * taps.stride;
  std::array<std::int32_t, kBlock> sums{};
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    const std::size_t size = std::min(kBlock, bytes - at);
    sums.fill(kHalf);
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t i = 0; i < size; ++i) sums[i] += from[k][at + i] * weights[k];
    }
    for (std::size_t i = 0; i < size; ++i) to[at + i] = rounded(sums[i]);
  }
}

constexpr ResampleKernels kPortable = {pack, pack, columns, rows};

}  // namespace

const ResampleKernels& portable_kernels() { return kPortable; }

}  // namespace isocost
