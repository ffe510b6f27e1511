#include "decode/internal/area_resize.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace isocost {
namespace {

constexpr std::uint32_t kUnitBits = AreaTaps::kUnitBits;
/// Sums over rows keep this many bits behind the point: with 8 before it they fill 15 bits.
constexpr std::uint32_t kRowBits = 7;
constexpr std::uint32_t kMeanShift = kUnitBits + kRowBits;
constexpr std::uint32_t kMeanHalf = 1U << (kMeanShift - 1);

/// Adds a weighted source row: widening multiplications of 16 bits, which vectorise on any x86-64.
void add_row(const std::uint8_t* __restrict row, std::uint16_t weight, std::size_t count,
             std::uint32_t* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += std::uint32_t{row[i]} * weight;
}

void round_sums(const std::uint32_t* __restrict sums, std::size_t count,
                std::uint16_t* __restrict row) {
  constexpr std::uint32_t kShift = kUnitBits - kRowBits;
  for (std::size_t i = 0; i < count; ++i) {
    row[i] = static_cast<std::uint16_t>((sums[i] + (1U << (kShift - 1))) >> kShift);
  }
}

void shrink_pixel(const std::uint16_t* pixel, const std::uint16_t* weight, std::int32_t count,
                  std::uint8_t* to) {
  std::array<std::uint32_t, 3> sums = {kMeanHalf, kMeanHalf, kMeanHalf};
  for (std::int32_t i = 0; i < count; ++i, pixel += 3, ++weight) {
    for (std::size_t c = 0; c < 3; ++c) sums[c] += std::uint32_t{pixel[c]} * *weight;
  }
  for (std::size_t c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(sums[c] >> kMeanShift);
}

#ifdef __SSE2__
/// The same numbers, two source pixels at a time; of each, three values and a fourth that is
/// dropped. Weights must be below 2^15, as all are unless the widths are equal. Reads one value
/// beyond the last pixel.
void shrink_pixel_sse2(const std::uint16_t* pixel, const std::uint16_t* weight, std::int32_t count,
                       std::uint8_t* to) {
  const auto load = [](const std::uint16_t* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  };
  __m128i sums = _mm_set1_epi32(static_cast<int>(kMeanHalf));
  std::int32_t i = 0;
  for (; i + 2 <= count; i += 2, pixel += 6) {
    const __m128i pair = _mm_unpacklo_epi16(load(pixel), load(pixel + 3));
    const int weights = weight[i] | weight[i + 1] << 16;
    sums = _mm_add_epi32(sums, _mm_madd_epi16(pair, _mm_set1_epi32(weights)));
  }
  if (i < count) {
    const __m128i last = _mm_unpacklo_epi16(load(pixel), _mm_setzero_si128());
    sums = _mm_add_epi32(sums, _mm_madd_epi16(last, _mm_set1_epi32(weight[i])));
  }
  const __m128i means = _mm_srli_epi32(sums, static_cast<int>(kMeanShift));
  const __m128i words = _mm_packs_epi32(means, means);
  const auto bytes = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
  to[0] = static_cast<std::uint8_t>(bytes);
  to[1] = static_cast<std::uint8_t>(bytes >> 8);
  to[2] = static_cast<std::uint8_t>(bytes >> 16);
}
constexpr auto kShrinkNarrower = shrink_pixel_sse2;
#else
constexpr auto kShrinkNarrower = shrink_pixel;
#endif

void shrink_row(const std::uint16_t* row, const AreaTaps& columns, bool narrower,
                std::uint8_t* to) {
  for (const AreaTaps::Tap& tap : columns.taps) {
    const std::uint16_t* pixel = row + std::ptrdiff_t{3} * tap.first;
    const std::uint16_t* weight = columns.weights.data() + tap.weights;
    if (narrower) {
      kShrinkNarrower(pixel, weight, tap.count, to);
    } else {
      shrink_pixel(pixel, weight, tap.count, to);
    }
    to += 3;
  }
}

}  // namespace

AreaTaps area_taps(std::int32_t from, std::int32_t to) {
  AreaTaps result;
  result.taps.reserve(static_cast<std::size_t>(to));
  // In units of 1 / (from * to) an old position is `to` long, a new one `from`.
  for (std::int64_t i = 0; i < to; ++i) {
    const std::int64_t start = i * from;
    const std::int64_t end = start + from;
    const std::int64_t first = start / to;
    const std::int64_t last = (end - 1) / to;
    result.taps.push_back({static_cast<std::int32_t>(first),
                           static_cast<std::int32_t>(last - first + 1), result.weights.size()});
    // Rounding the running sum, not each weight, makes them add up.
    std::int64_t given = 0;
    for (std::int64_t s = first; s <= last; ++s) {
      const std::int64_t covered = std::min(end, (s + 1) * to) - start;
      const std::int64_t sum = ((covered << kUnitBits) + from / 2) / from;
      result.weights.push_back(static_cast<std::uint16_t>(sum - given));
      given = sum;
    }
  }
  return result;
}

void area_resize(std::span<const std::uint8_t> from, std::int32_t from_width,
                 std::int32_t from_height, std::span<std::uint8_t> to, std::int32_t to_width,
                 std::int32_t to_height) {
  const AreaTaps columns = area_taps(from_width, to_width);
  const AreaTaps rows = area_taps(from_height, to_height);
  const std::size_t values = static_cast<std::size_t>(from_width) * 3;
  std::vector<std::uint32_t> sums(values);
  std::vector<std::uint16_t> row(values + 1);  // see shrink_pixel_sse2
  std::uint8_t* out = to.data();
  for (const AreaTaps::Tap& tap : rows.taps) {
    std::fill(sums.begin(), sums.end(), 0);
    const std::uint8_t* source = from.data() + static_cast<std::size_t>(tap.first) * values;
    for (std::int32_t i = 0; i < tap.count; ++i, source += values) {
      const std::uint16_t weight = rows.weights[tap.weights + static_cast<std::size_t>(i)];
      add_row(source, weight, values, sums.data());
    }
    round_sums(sums.data(), values, row.data());
    shrink_row(row.data(), columns, to_width < from_width, out);
    out += static_cast<std::size_t>(to_width) * 3;
  }
}

}  // namespace isocost
