// The kernels of resample_kernels.h for vectors. Highway compiles this file once for each set of
// vector instructions, and chooses among them at run time.

#define HWY_WANT_AVX3_DL  // for VNNI's products of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/internal/resample_simd.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <algorithm>  // IWYU pragma: keep: for resample_near-inl.h
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "decode/internal/resample_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace isocost::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

ResampleKernels kernels() { return portable_kernels(); }

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kShift = ResampleTaps::kWeightBits;
constexpr std::int32_t kHalf = 1 << (kShift - 1);
constexpr std::size_t kLane = 16;     // bytes of 128 bits
constexpr std::size_t kPixels = 4;    // new pixels that are stored together
constexpr std::size_t kChannels = 3;  // packed RGB

using Rows = std::array<const std::uint8_t*, kResampleBatch>;
using Targets = std::array<std::uint8_t*, kResampleBatch>;

#if HWY_TARGET == HWY_AVX3_DL
#include "decode/internal/resample_vnni-inl.h"
#else

constexpr int kLowBits = kShift - ResampleTaps::kCoarseBits;

// A weight is high * 2^8 + low, each of 16 bits: products of pairs of such numbers are what
// processors multiply and add. Low is 0 of coarse weights.
std::array<std::int16_t, 2> parts_of(std::int32_t weight) {
  const std::int32_t high = weight >> kLowBits;
  return {static_cast<std::int16_t>(high),
          static_cast<std::int16_t>(weight - high * (1 << kLowBits))};
}

// Of a window's weights those of pairs of old pixels: high of both, low of both. The first pixel of
// a pair has an even number, so a window may begin or end with a weight of 0.
constexpr std::size_t kPackedStride = 2;  // by how much they are more
void pack_pairs(ResampleTaps& taps) {
  const std::size_t stride = taps.stride + kPackedStride;
  std::vector<std::int32_t> packed(taps.windows.size() * stride);
  for (std::size_t window = 0; window < taps.windows.size(); ++window) {
    const auto [first, count] = taps.windows[window];
    const std::int32_t* weights = taps.weights.data() + window * taps.stride;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t place = first % 2 + i;
      auto* pair = reinterpret_cast<std::uint8_t*>(&packed[window * stride]) +
                   static_cast<std::size_t>(place) / 2 * 2 * sizeof(std::int32_t);
      const auto parts = parts_of(weights[i]);
      std::memcpy(pair + place % 2 * sizeof(std::int16_t), &parts[0], sizeof(std::int16_t));
      std::memcpy(pair + sizeof(std::int32_t) + place % 2 * sizeof(std::int16_t), &parts[1],
                  sizeof(std::int16_t));
    }
  }
  taps.stride = stride;
  taps.weights = std::move(packed);
}

template <class D32>
struct Sums {
  hn::Vec<D32> high;
  hn::Vec<D32> low;
};

// A half, so that they are rounded to the nearest where they are cut.
template <class D32>
HWY_INLINE Sums<D32> no_sums(D32 d32) {
  return {hn::Zero(d32), hn::Set(d32, kHalf)};
}

// The sums of products of adjacent 16-bit numbers.
template <class D32, class V16>
HWY_INLINE hn::Vec<D32> products(D32 d32, V16 a, V16 b) {
  auto second = hn::Zero(d32);
  const auto first = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), second);
  return hn::RearrangeToOddPlusEven(first, second);
}

// Both sums may wrap; what they make together does not.
template <bool kIsCoarse, class D32, class V16>
HWY_INLINE void add_products(D32 d32, V16 values, V16 high, V16 low, Sums<D32>& sums) {
  sums.high = hn::Add(sums.high, products(d32, values, high));
  if constexpr (!kIsCoarse) sums.low = hn::Add(sums.low, products(d32, values, low));
}

template <class D32>
HWY_INLINE hn::Vec<D32> rounded(D32, const Sums<D32>& sums) {
  return hn::ShiftRight<kShift>(hn::Add(hn::ShiftLeft<kLowBits>(sums.high), sums.low));
}

// Four rows lie in vectors of 128 bits, eight in two of those side by side: a row in each 32 bits.
using Bytes = hn::CappedTag<std::uint8_t, 2 * kLane>;
using Words = hn::Repartition<std::int16_t, Bytes>;
using Numbers = hn::Repartition<std::int32_t, Bytes>;
using Halves = hn::Repartition<std::uint64_t, Bytes>;
using Lane = hn::FixedTag<std::uint8_t, kLane>;
constexpr std::size_t kVector = HWY_MIN(HWY_MAX_BYTES, 2 * kLane);
constexpr std::size_t kRowsTogether = kVector / sizeof(std::int32_t);

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

constexpr std::uint8_t kNo = 0x80;
// Four pixels: pairs of red, of green, of blue.
alignas(kLane) constexpr std::uint8_t kByChannel[kLane] = {0, 3, 6, 9,  1,   4,   7,   10,
                                                           2, 5, 8, 11, kNo, kNo, kNo, kNo};
// Four values of each row in place of four rows of each value.
alignas(kLane) constexpr std::uint8_t kByRow[kLane] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                       2, 6, 10, 14, 3, 7, 11, 15};
// The same of two rows, which begin halves.
alignas(kLane) constexpr std::uint8_t kFirstRows[kLane] = {0, 4, 8, 12, kNo, kNo, kNo, kNo,
                                                           1, 5, 9, 13, kNo, kNo, kNo, kNo};
alignas(kLane) constexpr std::uint8_t kLastRows[kLane] = {2, 6, 10, 14, kNo, kNo, kNo, kNo,
                                                          3, 7, 11, 15, kNo, kNo, kNo, kNo};

// 128 bits of the first four rows and, where there is room, those of the next.
HWY_INLINE hn::Vec<Bytes> load_rows(const std::uint8_t* const* from, std::size_t at) {
  const auto first = hn::LoadU(Lane(), from[0] + at);
#if HWY_MAX_BYTES > 16
  return hn::Combine(Bytes(), hn::LoadU(Lane(), from[4] + at), first);
#else
  return first;
#endif
}

HWY_INLINE void store_rows(hn::Vec<Bytes> rows, std::uint8_t* const* to, std::size_t at) {
#if HWY_MAX_BYTES > 16
  hn::StoreU(hn::LowerHalf(Lane(), rows), Lane(), to[0] + at);
  hn::StoreU(hn::UpperHalf(Lane(), rows), Lane(), to[4] + at);
#else
  hn::StoreU(rows, Lane(), to[0] + at);
#endif
}

// Writes two pairs of old pixels of each row, whose values become 16 bits wide: per pair the reds
// of all rows, then greens, blues.
HWY_INLINE void spread(const std::uint8_t* const* from, std::size_t pixel, std::uint8_t* to) {
  const Bytes bytes;
  const Words words;
  const Numbers numbers;
  const auto by_channel = hn::LoadDup128(bytes, kByChannel);
  const auto row = [&](std::size_t i) {
    const auto four = load_rows(from + i, pixel * kChannels);
    return hn::BitCast(words, hn::TableLookupBytesOr0(four, by_channel));
  };
  const auto a = row(0);
  const auto b = row(1);
  const auto c = row(2);
  const auto d = row(3);
  const auto lower_ab = hn::BitCast(numbers, hn::InterleaveLower(words, a, b));
  const auto lower_cd = hn::BitCast(numbers, hn::InterleaveLower(words, c, d));
  const auto upper_ab = hn::BitCast(numbers, hn::InterleaveUpper(words, a, b));
  const auto upper_cd = hn::BitCast(numbers, hn::InterleaveUpper(words, c, d));
  const auto store = [&](auto pairs, std::size_t channel) {
    const auto narrow = hn::BitCast(bytes, pairs);
    const auto zero = hn::Zero(bytes);
    hn::Store(hn::InterleaveLower(bytes, narrow, zero), bytes, to + channel * kVector);
    hn::Store(hn::InterleaveUpper(bytes, narrow, zero), bytes,
              to + (kChannels + channel) * kVector);
  };
  store(hn::InterleaveLower(numbers, lower_ab, lower_cd), 0);
  store(hn::InterleaveUpper(numbers, lower_ab, lower_cd), 1);
  store(hn::InterleaveLower(numbers, upper_ab, upper_cd), 2);
}

// A new pixel of each row.
template <bool kIsCoarse>
HWY_INLINE void columns_of_window(const std::uint8_t* pairs, const std::int32_t* weights,
                                  std::size_t count, hn::Vec<Numbers>* made) {
  const Words words;
  const Numbers numbers;
  std::array<Sums<Numbers>, kChannels> sums;
  for (auto& sum : sums) sum = no_sums(numbers);
  for (std::size_t k = 0; k < count; ++k, weights += 2) {
    const auto high = hn::BitCast(words, hn::Set(numbers, weights[0]));
    const auto low = hn::BitCast(words, hn::Set(numbers, weights[1]));
    for (std::size_t c = 0; c < kChannels; ++c, pairs += kVector) {
      const auto values = hn::BitCast(words, hn::Load(Bytes(), pairs));
      add_products<kIsCoarse>(numbers, values, high, low, sums[c]);
    }
  }
  for (std::size_t c = 0; c < kChannels; ++c) made[c] = rounded(numbers, sums[c]);
}

// Writes four new pixels to each row, and four bytes behind them.
HWY_INLINE void store_pixels(const hn::Vec<Numbers>* made, std::uint8_t* const* to,
                             std::size_t at) {
  const Bytes bytes;
  const Words words;
  const Numbers numbers;
  const Halves halves;
  const auto four = [&](const hn::Vec<Numbers>* values) {
    return to_bytes(hn::ReorderDemote2To(words, values[0], values[1]),
                    hn::ReorderDemote2To(words, values[2], values[3]));
  };
  const auto by_row = hn::LoadDup128(bytes, kByRow);
  const auto a = hn::BitCast(numbers, hn::TableLookupBytes(four(made), by_row));
  const auto b = hn::BitCast(numbers, hn::TableLookupBytes(four(made + 4), by_row));
  const auto c = four(made + 8);
  const auto first =
      hn::BitCast(halves, hn::TableLookupBytesOr0(c, hn::LoadDup128(bytes, kFirstRows)));
  const auto last =
      hn::BitCast(halves, hn::TableLookupBytesOr0(c, hn::LoadDup128(bytes, kLastRows)));
  const auto lower = hn::BitCast(halves, hn::InterleaveLower(numbers, a, b));
  const auto upper = hn::BitCast(halves, hn::InterleaveUpper(numbers, a, b));
  store_rows(hn::BitCast(bytes, hn::InterleaveLower(halves, lower, first)), to, at);
  store_rows(hn::BitCast(bytes, hn::InterleaveUpper(halves, lower, first)), to + 1, at);
  store_rows(hn::BitCast(bytes, hn::InterleaveLower(halves, upper, last)), to + 2, at);
  store_rows(hn::BitCast(bytes, hn::InterleaveUpper(halves, upper, last)), to + 3, at);
}

// The rows' pixels, spread out just before they are needed, and kept while they are in the cache.
class SpreadPixels {
 public:
  SpreadPixels(const std::uint8_t* const* from, const ResampleTaps& taps, std::uint8_t* scratch)
      : from_(from), scratch_(scratch), capacity_(taps.stride - kPackedStride + kPixelsAhead) {}

  // The pairs that hold the pixels from `first` to `end`. Neither becomes smaller.
  const std::uint8_t* pairs(std::size_t first, std::size_t end) {
    if (end + kSpread > begin_ + capacity_) keep_from(first / kSpread * kSpread);
    for (; done_ < end; done_ += kSpread) spread(from_, done_, place(done_));
    return place(first);
  }

 private:
  static constexpr std::size_t kSpread = 4;

  std::uint8_t* place(std::size_t pixel) {
    return scratch_ + (pixel - begin_) / 2 * kChannels * kVector;
  }
  void keep_from(std::size_t first) {
    if (first < done_) {
      std::memmove(scratch_, place(first), static_cast<std::size_t>(place(done_) - place(first)));
    } else {
      done_ = first;
    }
    begin_ = first;
  }

  const std::uint8_t* const* from_;
  std::uint8_t* scratch_;
  std::size_t capacity_;
  std::size_t begin_ = 0;
  std::size_t done_ = 0;
};

// Rows lie side by side in vectors, so that a weight is the same for all of one.
template <bool kIsCoarse>
void columns_of_rows(const std::uint8_t* const* from, const ResampleTaps& taps,
                     std::uint8_t* const* to, std::uint8_t* scratch) {
  const std::size_t pixels = taps.windows.size();
  SpreadPixels spread_out(from, taps, scratch);
  std::array<hn::Vec<Numbers>, kPixels * kChannels> made;
  for (std::size_t pixel = 0; pixel < pixels; pixel += kPixels) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      const std::size_t at = HWY_MIN(pixel + i, pixels - 1);
      const auto first = static_cast<std::size_t>(taps.windows[at].first);
      const auto end = first + static_cast<std::size_t>(taps.windows[at].count);
      columns_of_window<kIsCoarse>(spread_out.pairs(first, end),
                                   taps.weights.data() + at * taps.stride,
                                   (end + 1) / 2 - first / 2, &made[i * kChannels]);
    }
    if (pixels - pixel > kPixels + 1) {
      store_pixels(made.data(), to, pixel * kChannels);
      continue;
    }
    // Nothing may be written beyond the rows.
    alignas(kLane) std::array<std::uint8_t, kRowsTogether * kLane> last{};
    std::array<std::uint8_t*, kRowsTogether> rows{};
    for (std::size_t i = 0; i < kRowsTogether; ++i) rows[i] = &last[i * kLane];
    store_pixels(made.data(), rows.data(), 0);
    for (std::size_t i = 0; i < kRowsTogether; ++i) {
      std::memcpy(to[i] + pixel * kChannels, rows[i], HWY_MIN(kPixels, pixels - pixel) * kChannels);
    }
  }
}

#include "decode/internal/resample_beside-inl.h"

void pack_columns(ResampleTaps& taps) {
  if (!pack_beside(taps)) pack_pairs(taps);
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

const ResampleKernels& fastest_kernels() {
  static const ResampleKernels chosen = HWY_DYNAMIC_DISPATCH(kernels)();
  return chosen;
}

std::vector<ResampleTarget> resample_targets() {
  std::vector<ResampleTarget> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    targets.push_back({hwy::TargetName(target), HWY_DYNAMIC_DISPATCH(kernels)()});
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return targets;
}

}  // namespace isocost
#endif
