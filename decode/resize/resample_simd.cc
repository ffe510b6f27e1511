// The kernels of resample_kernels.h for vectors. Highway compiles this file once for each set of
// vector instructions, and chooses among them at run time.

#define HWY_WANT_AVX3_DL  // for VNNI's products of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/resize/resample_simd.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <algorithm>  // IWYU pragma: keep: for resample_vnni-inl.h
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>  // IWYU pragma: keep: for resample_spread-inl.h
#include <vector>

#include "decode/resize/resample_kernels.h"
#include "decode/resize/simd_targets.h"

HWY_BEFORE_NAMESPACE();
namespace isocost::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

ResampleKernels kernels() { return portable_kernels(); }

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kShift = ResampleTaps::kWeightBits;
constexpr std::int32_t kHalf = 1 << (kShift - 1);
constexpr std::size_t kLane = 16;     // bytes in 128 bits
constexpr std::size_t kPixels = 4;    // new pixels that are stored together
constexpr std::size_t kChannels = 3;  // of packed RGB

using Rows = std::array<const std::uint8_t*, kResampleBatch>;
using Targets = std::array<std::uint8_t*, kResampleBatch>;

#if HWY_TARGET == HWY_AVX3_DL
#include "decode/resize/internal/resample_vnni-inl.h"
#else

// A weight is high * 2^16 + low, where low is a signed number of 16 bits. Products of bytes with
// high parts, and their sums, fit into 16 bits, of which a vector holds twice as many as of 32.
struct WeightParts {
  std::int8_t high;
  std::int16_t low;
};

WeightParts split(std::int32_t weight) {
  const auto low = static_cast<std::int16_t>(weight & 0xFFFF);
  return {static_cast<std::int8_t>((weight - low) / (1 << 16)), low};
}

// Returns the sums of products of adjacent 16-bit numbers.
template <class D32, class V16>
HWY_INLINE hn::Vec<D32> products(D32 d32, V16 a, V16 b) {
  auto second = hn::Zero(d32);
  const auto first = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), second);
  return hn::RearrangeToOddPlusEven(first, second);
}

// Saturates within each 128 bits, those of the first number before those of the second.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
HWY_INLINE hn::Vec128<std::uint8_t> to_bytes(hn::Vec128<std::int16_t> a,
                                             hn::Vec128<std::int16_t> b) {
  return hn::Vec128<std::uint8_t>{_mm_packus_epi16(a.raw, b.raw)};
}
#if HWY_MAX_BYTES >= 32
HWY_INLINE hn::Vec256<std::uint8_t> to_bytes(hn::Vec256<std::int16_t> a,
                                             hn::Vec256<std::int16_t> b) {
  return hn::Vec256<std::uint8_t>{_mm256_packus_epi16(a.raw, b.raw)};
}
#endif
#if HWY_MAX_BYTES >= 64
HWY_INLINE hn::Vec512<std::uint8_t> to_bytes(hn::Vec512<std::int16_t> a,
                                             hn::Vec512<std::int16_t> b) {
  return hn::Vec512<std::uint8_t>{_mm512_packus_epi16(a.raw, b.raw)};
}
#endif
#else  // vectors of 128 bits
template <class V16>
HWY_INLINE auto to_bytes(V16 a, V16 b) {
  const hn::FixedTag<std::uint8_t, 8> half;
  return hn::Combine(hn::FixedTag<std::uint8_t, 16>(), hn::DemoteTo(half, b),
                     hn::DemoteTo(half, a));
}
#endif

// Returns the sums of products of pairs of adjacent bytes. No pair saturates: high parts of a
// window add up to less than 1.3 * 2^6.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
HWY_INLINE hn::Vec128<std::int16_t> byte_products(hn::Vec128<std::uint8_t> values,
                                                  hn::Vec128<std::int8_t> weights) {
  return hn::Vec128<std::int16_t>{_mm_maddubs_epi16(values.raw, weights.raw)};
}
#if HWY_MAX_BYTES >= 32
HWY_INLINE hn::Vec256<std::int16_t> byte_products(hn::Vec256<std::uint8_t> values,
                                                  hn::Vec256<std::int8_t> weights) {
  return hn::Vec256<std::int16_t>{_mm256_maddubs_epi16(values.raw, weights.raw)};
}
#endif
#if HWY_MAX_BYTES >= 64
HWY_INLINE hn::Vec512<std::int16_t> byte_products(hn::Vec512<std::uint8_t> values,
                                                  hn::Vec512<std::int8_t> weights) {
  return hn::Vec512<std::int16_t>{_mm512_maddubs_epi16(values.raw, weights.raw)};
}
#endif
#else
template <class V8, class W8>
HWY_INLINE auto byte_products(V8 values, W8 weights) {
  const hn::Repartition<std::int16_t, hn::DFromV<V8> > words;
  const hn::RebindToUnsigned<decltype(words)> bits;
  const auto value = hn::BitCast(bits, values);
  const auto weight = hn::BitCast(words, weights);
  const auto first = hn::BitCast(words, hn::And(value, hn::Set(bits, 0xFF)));
  const auto second = hn::BitCast(words, hn::ShiftRight<8>(value));
  return hn::Add(hn::Mul(first, hn::ShiftRight<8>(hn::ShiftLeft<8>(weight))),
                 hn::Mul(second, hn::ShiftRight<8>(weight)));
}
#endif

constexpr std::uint8_t kNo = 0x80;  // index that makes a byte 0 in a shuffle

#include "decode/resize/internal/resample_spread-inl.h"

#include "decode/resize/internal/resample_beside-inl.h"

void pack_columns(ResampleTaps& taps) {
  if (!pack_beside(taps)) pack_fours(taps);
}

void columns(const Rows& from, const ResampleTaps& taps, const Targets& to,
             ResampleVector* scratch) {
  if (!taps.vectors.empty()) return columns_beside(from, taps, to);
  for (std::size_t i = 0; i < kResampleBatch; i += kRowsTogether) {
    const auto make = taps.is_coarse ? columns_of_rows<true> : columns_of_rows<false>;
    make(from.data() + i, taps, to.data() + i, scratch->bytes.data());
  }
}

#endif

}  // namespace

ResampleKernels kernels() { return {pack_columns, pack_rows, columns, rows}; }

#endif

}  // namespace isocost::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace isocost {

HWY_EXPORT(kernels);

namespace {

ResampleKernels chosen_kernels() { return HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace

const ResampleKernels& fastest_kernels() { return fastest_target<chosen_kernels>(); }

std::vector<ResampleTarget> resample_targets() { return simd_targets(chosen_kernels); }

}  // namespace isocost
#endif
