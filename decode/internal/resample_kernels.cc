#include "decode/internal/resample_kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace isocost {
namespace {

constexpr int kWeightBits = ResampleTaps::kWeightBits;
constexpr int kLowBits = ResampleTaps::kLowBits;
/// Added before the shift, rounds to the nearest. No sum overflows: a window's positive weights add
/// up to less than 1.3, its negative ones to more than -0.3.
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

std::int32_t weight_at(const ResampleTaps& taps, std::size_t at) {
  return taps.high[at] * (1 << kLowBits) + taps.low[at];
}

/// Two rows at a time: their six sums fit into registers.
void columns_of_two_rows(const std::uint8_t* upper, const std::uint8_t* lower,
                         const ResampleTaps& taps, std::uint8_t* to_upper, std::uint8_t* to_lower) {
  std::size_t weights = 0;
  std::size_t out = 0;
  for (const auto [first, count] : taps.windows) {
    std::array<std::int32_t, 3> above = {kHalf, kHalf, kHalf};
    std::array<std::int32_t, 3> below = {kHalf, kHalf, kHalf};
    std::size_t at = static_cast<std::size_t>(first) * 3;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i, at += 3) {
      const std::int32_t weight = weight_at(taps, weights + i);
      for (std::size_t c = 0; c < 3; ++c) above[c] += upper[at + c] * weight;
      for (std::size_t c = 0; c < 3; ++c) below[c] += lower[at + c] * weight;
    }
    for (std::size_t c = 0; c < 3; ++c) to_upper[out + c] = rounded(above[c]);
    for (std::size_t c = 0; c < 3; ++c) to_lower[out + c] = rounded(below[c]);
    out += 3;
    weights += taps.stride;
  }
}

void columns_portable(const std::array<const std::uint8_t*, kResampleBatch>& from,
                      const ResampleTaps& taps,
                      const std::array<std::uint8_t*, kResampleBatch>& to) {
  for (std::size_t i = 0; i < kResampleBatch; i += 2) {
    columns_of_two_rows(from[i], from[i + 1], taps, to[i], to[i + 1]);
  }
}

/// A few columns at a time, whose sums stay in the first-level cache.
constexpr std::size_t kBlock = 256;

/// Adds two weighted rows. Multiplies 16-bit numbers, which vectorises on any x86-64; products of
/// 32-bit numbers do not.
void add_rows(const std::uint8_t* __restrict a, const std::uint8_t* __restrict b,
              const std::int16_t* high, const std::int16_t* low, std::size_t count,
              std::int32_t* __restrict sums) {
  const std::int16_t high_a = high[0];
  const std::int16_t high_b = high[1];
  const std::int16_t low_a = low[0];
  const std::int16_t low_b = low[1];
  for (std::size_t i = 0; i < count; ++i) {
    const std::int16_t from_a = a[i];
    const std::int16_t from_b = b[i];
    const std::int32_t sum = from_a * high_a + from_b * high_b;
    sums[i] += sum * (1 << kLowBits) + from_a * low_a + from_b * low_b;
  }
}

void rows_portable(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
                   std::size_t bytes, std::uint8_t* to) {
  const auto count = static_cast<std::size_t>(taps.windows[window].count);
  const std::int16_t* high = taps.high.data() + window * taps.stride;
  const std::int16_t* low = taps.low.data() + window * taps.stride;
  std::array<std::int32_t, kBlock> sums{};
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    const std::size_t size = std::min(kBlock, bytes - at);
    sums.fill(kHalf);
    for (std::size_t k = 0; k < count; k += 2) {
      add_rows(from[k] + at, from[k + 1] + at, high + k, low + k, size, sums.data());
    }
    for (std::size_t i = 0; i < size; ++i) to[at + i] = rounded(sums[i]);
  }
}

#ifdef __x86_64__
#define ISOCOST_AVX2 __attribute__((target("avx2")))

/// Sums of products with the high and the low parts of weights. Both may wrap; what they make
/// together does not.
struct Sums {
  __m256i high;
  __m256i low;
};

ISOCOST_AVX2 inline void add_products(__m256i values, __m256i high, __m256i low, Sums& sums) {
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(values, high));
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(values, low));
}

ISOCOST_AVX2 inline __m256i total(const Sums& sums) {
  return _mm256_add_epi32(_mm256_slli_epi32(sums.high, kLowBits), sums.low);
}

ISOCOST_AVX2 inline __m256i rounded(const Sums& sums) {
  return _mm256_srai_epi32(total(sums), kWeightBits);
}

ISOCOST_AVX2 inline __m256i load4(const std::int16_t* weights) {
  std::int64_t four = 0;
  std::memcpy(&four, weights, sizeof(four));
  return _mm256_set1_epi64x(four);
}

ISOCOST_AVX2 inline __m256i load2(const std::int16_t* weights) {
  std::int32_t two = 0;
  std::memcpy(&two, weights, sizeof(two));
  return _mm256_set1_epi32(two);
}

/// Adds both halves, rounds: one pixel of a row in the low four numbers.
ISOCOST_AVX2 inline __m128i pixel_of(const Sums& sums) {
  const __m256i both = total(sums);
  const __m128i sum =
      _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  return _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kWeightBits);
}

ISOCOST_AVX2 inline void store3(int pixel, std::uint8_t* to) { std::memcpy(to, &pixel, 3); }

/// Four pixels of each of four rows at a time. Pixels 0 and 1 go to one half of a register, 2 and 3
/// to the other: per colour a pair of 16-bit numbers.
ISOCOST_AVX2 void columns_avx2(const std::array<const std::uint8_t*, kResampleBatch>& from,
                               const ResampleTaps& taps,
                               const std::array<std::uint8_t*, kResampleBatch>& to) {
  constexpr char kNo = -1;
  const __m256i spread =
      _mm256_setr_epi8(0, kNo, 3, kNo, 1, kNo, 4, kNo, 2, kNo, 5, kNo, kNo, kNo, kNo, kNo, 6, kNo,
                       9, kNo, 7, kNo, 10, kNo, 8, kNo, 11, kNo, kNo, kNo, kNo, kNo);
  const __m256i pairs = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const std::int16_t* high = taps.high.data();
  const std::int16_t* low = taps.low.data();
  std::size_t out = 0;
  for (const auto [first, count] : taps.windows) {
    std::array<Sums, kResampleBatch> sums{};
    for (Sums& sum : sums) sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    std::size_t at = static_cast<std::size_t>(first) * 3;
    for (std::int32_t k = 0; k < count; k += 4, at += 12) {
      const __m256i high4 = _mm256_permutevar8x32_epi32(load4(high + k), pairs);
      const __m256i low4 = _mm256_permutevar8x32_epi32(load4(low + k), pairs);
      for (std::size_t i = 0; i < kResampleBatch; ++i) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[i] + at));
        const __m256i values = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread);
        add_products(values, high4, low4, sums[i]);
      }
    }
    const __m128i pixels = _mm_packus_epi16(_mm_packs_epi32(pixel_of(sums[0]), pixel_of(sums[1])),
                                            _mm_packs_epi32(pixel_of(sums[2]), pixel_of(sums[3])));
    store3(_mm_extract_epi32(pixels, 0), to[0] + out);
    store3(_mm_extract_epi32(pixels, 1), to[1] + out);
    store3(_mm_extract_epi32(pixels, 2), to[2] + out);
    store3(_mm_extract_epi32(pixels, 3), to[3] + out);
    out += 3;
    high += taps.stride;
    low += taps.stride;
  }
}

constexpr std::size_t kVector = 32;

/// 32 columns of a row. The order that unpacking gives them, packing takes back.
ISOCOST_AVX2 void rows_block_avx2(const std::uint8_t* const* from, const std::int16_t* high,
                                  const std::int16_t* low, std::int32_t count, std::size_t at,
                                  std::uint8_t* to) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i half = _mm256_set1_epi32(kHalf);
  std::array<Sums, 4> sums{};
  for (Sums& sum : sums) sum = {zero, half};
  for (std::int32_t k = 0; k < count; k += 2) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from[k] + at));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from[k + 1] + at));
    const __m256i high2 = load2(high + k);
    const __m256i low2 = load2(low + k);
    const __m256i lower = _mm256_unpacklo_epi8(a, b);
    const __m256i upper = _mm256_unpackhi_epi8(a, b);
    add_products(_mm256_unpacklo_epi8(lower, zero), high2, low2, sums[0]);
    add_products(_mm256_unpackhi_epi8(lower, zero), high2, low2, sums[1]);
    add_products(_mm256_unpacklo_epi8(upper, zero), high2, low2, sums[2]);
    add_products(_mm256_unpackhi_epi8(upper, zero), high2, low2, sums[3]);
  }
  const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(rounded(sums[0]), rounded(sums[1])),
                                            _mm256_packs_epi32(rounded(sums[2]), rounded(sums[3])));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), bytes);
}

ISOCOST_AVX2 void rows_avx2(const std::uint8_t* const* from, const ResampleTaps& taps,
                            std::size_t window, std::size_t bytes, std::uint8_t* to) {
  if (bytes < kVector) {
    rows_portable(from, taps, window, bytes, to);
    return;
  }
  const std::int32_t count = taps.windows[window].count;
  const std::int16_t* high = taps.high.data() + window * taps.stride;
  const std::int16_t* low = taps.low.data() + window * taps.stride;
  for (std::size_t at = 0; at + kVector <= bytes; at += kVector) {
    rows_block_avx2(from, high, low, count, at, to);
  }
  // The last columns, some of them for the second time.
  if (bytes % kVector != 0) rows_block_avx2(from, high, low, count, bytes - kVector, to);
}
#endif

constexpr ResampleKernels kPortable = {columns_portable, rows_portable};
#ifdef __x86_64__
constexpr ResampleKernels kAvx2 = {columns_avx2, rows_avx2};
#endif

}  // namespace

const ResampleKernels& portable_kernels() { return kPortable; }

const ResampleKernels& fastest_kernels() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return kAvx2;
#endif
  return kPortable;
}

}  // namespace isocost
