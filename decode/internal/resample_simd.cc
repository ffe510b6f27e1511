// The kernels of resample_kernels.h for vectors. Highway compiles this file once for each set of
// vector instructions, and chooses among them at run time.

#define HWY_WANT_AVX3_DL  // for VNNI's products of bytes
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/internal/resample_simd.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
constexpr std::size_t kStored = 12;   // their bytes
constexpr std::size_t kChannels = 3;  // packed RGB

using Rows = std::array<const std::uint8_t*, kResampleBatch>;
using Targets = std::array<std::uint8_t*, kResampleBatch>;

// Bytes of 128 bits: four pixels with a fourth channel lose it.
alignas(kLane) constexpr std::uint8_t kWithoutFourth[kLane] = {
    0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};

// Where a group of four new pixels goes. The last one must not be written beyond the row.
class Group {
 public:
  Group(const Targets& to, std::size_t at, std::size_t pixels)
      : to_(to), at_(at), left_(pixels - at) {}
  std::uint8_t* row(std::size_t i) {
    return left_ > kPixels + 1 ? to_[i] + at_ * kChannels : last_.data() + i * kLane;
  }
  void finish() {
    if (left_ > kPixels + 1) return;
    const std::size_t bytes = (left_ < kPixels ? left_ : kPixels) * kChannels;
    for (std::size_t i = 0; i < kResampleBatch; ++i) {
      std::memcpy(to_[i] + at_ * kChannels, last_.data() + i * kLane, bytes);
    }
  }

 private:
  const Targets& to_;
  std::size_t at_;
  std::size_t left_;
  alignas(kLane) std::array<std::uint8_t, kResampleBatch * kLane> last_{};
};

#if HWY_TARGET == HWY_AVX3_DL
#include "decode/internal/resample_vnni-inl.h"
#else

constexpr int kLowBits = 11;

// A weight is high * 2^11 + low, each of 16 bits: products of pairs of such numbers are what
// processors multiply and add. Of four weights: high of the first and the last two, then low.
void pack(ResampleTaps& taps) {
  for (std::size_t i = 0; i < taps.weights.size(); i += kTapsTogether) {
    std::array<std::int16_t, 2 * kTapsTogether> parts{};
    for (std::size_t k = 0; k < kTapsTogether; ++k) {
      const std::int32_t high = taps.weights[i + k] >> kLowBits;
      parts[k] = static_cast<std::int16_t>(high);
      parts[kTapsTogether + k] =
          static_cast<std::int16_t>(taps.weights[i + k] - high * (1 << kLowBits));
    }
    std::memcpy(&taps.weights[i], parts.data(), sizeof(parts));
  }
}

void pack_columns(ResampleTaps& taps) { pack(taps); }

template <class D32>
struct Sums {
  hn::Vec<D32> high;
  hn::Vec<D32> low;
};

template <class D32>
HWY_INLINE Sums<D32> no_sums(D32 d32) {
  return {hn::Zero(d32), hn::Zero(d32)};
}

// Adds products of adjacent 16-bit numbers. Both sums may wrap; what they make together does not.
template <class D32, class V16>
HWY_INLINE void add_products(D32 d32, V16 values, V16 high, V16 low, Sums<D32>& sums) {
  auto second = hn::Zero(d32);
  auto first = hn::ReorderWidenMulAccumulate(d32, values, high, hn::Zero(d32), second);
  sums.high = hn::Add(sums.high, hn::RearrangeToOddPlusEven(first, second));
  second = hn::Zero(d32);
  first = hn::ReorderWidenMulAccumulate(d32, values, low, hn::Zero(d32), second);
  sums.low = hn::Add(sums.low, hn::RearrangeToOddPlusEven(first, second));
}

template <class D32>
HWY_INLINE hn::Vec<D32> total(D32, const Sums<D32>& sums) {
  return hn::Add(hn::ShiftLeft<kLowBits>(sums.high), sums.low);
}

template <class D32, class V32>
HWY_INLINE V32 rounded(D32 d32, V32 sum) {
  return hn::ShiftRight<kShift>(hn::Add(sum, hn::Set(d32, kHalf)));
}

// Vectors of 128 bits, or two of them side by side: pixels 0 and 1 go to the first, 2 and 3 to the
// second.
using Bytes = hn::CappedTag<std::uint8_t, 2 * kLane>;
using Words = hn::Repartition<std::int16_t, Bytes>;
using Numbers = hn::Repartition<std::int32_t, Bytes>;
using Lane = hn::FixedTag<std::int32_t, 4>;
constexpr std::size_t kSteps = 2 * kLane / HWY_MIN(HWY_MAX_BYTES, 2 * kLane);

constexpr std::uint8_t kNo = 0x80;
// Per colour a pair of 16-bit numbers.
alignas(2 * kLane) constexpr std::uint8_t kSpread[2 * kLane] = {
    0, kNo, 3, kNo, 1, kNo, 4,  kNo, 2, kNo, 5,  kNo, kNo, kNo, kNo, kNo,
    6, kNo, 9, kNo, 7, kNo, 10, kNo, 8, kNo, 11, kNo, kNo, kNo, kNo, kNo};
alignas(2 * kLane) constexpr std::uint8_t kHighWeights[2 * kLane] = {
    0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7};
alignas(2 * kLane) constexpr std::uint8_t kLowWeights[2 * kLane] = {
    8,  9,  10, 11, 8,  9,  10, 11, 8,  9,  10, 11, 8,  9,  10, 11,
    12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15};

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

HWY_INLINE hn::Vec<Lane> pixel_of(const Sums<Numbers>& sums) {
  const auto sum = total(Numbers(), sums);
#if HWY_MAX_BYTES > 16
  return rounded(Lane(), hn::Add(hn::LowerHalf(Lane(), sum), hn::UpperHalf(Lane(), sum)));
#else
  return rounded(Lane(), sum);
#endif
}

// A new pixel of each row.
HWY_INLINE void columns_of_window(const Rows& from, const ResampleTaps& taps, std::size_t window,
                                  std::array<hn::Vec<Lane>, kResampleBatch>& made) {
  const Bytes bytes;
  const Words words;
  const auto* weights =
      reinterpret_cast<const std::uint8_t*>(taps.weights.data() + window * taps.stride);
  std::array<Sums<Numbers>, kResampleBatch> sums;
  for (auto& sum : sums) sum = no_sums(Numbers());
  std::size_t at = static_cast<std::size_t>(taps.windows[window].first) * kChannels;
  // As often for each window: branches that the processor foresees.
  for (std::size_t k = 0; k < taps.stride;
       k += kTapsTogether, at += kTapsTogether * kChannels, weights += kLane) {
    const auto four = hn::LoadDup128(bytes, weights);
    for (std::size_t step = 0; step < kSteps; ++step) {
      const std::size_t half = step * hn::MaxLanes(bytes);
      const auto high = hn::TableLookupBytes(four, hn::Load(bytes, kHighWeights + half));
      const auto low = hn::TableLookupBytes(four, hn::Load(bytes, kLowWeights + half));
      const auto spread = hn::Load(bytes, kSpread + half);
      for (std::size_t i = 0; i < kResampleBatch; ++i) {
        const auto values = hn::TableLookupBytesOr0(hn::LoadDup128(bytes, from[i] + at), spread);
        add_products(Numbers(), hn::BitCast(words, values), hn::BitCast(words, high),
                     hn::BitCast(words, low), sums[i]);
      }
    }
  }
  for (std::size_t i = 0; i < kResampleBatch; ++i) made[i] = pixel_of(sums[i]);
}

void columns(const Rows& from, const ResampleTaps& taps, const Targets& to) {
  const hn::FixedTag<std::int16_t, 8> words;
  const hn::FixedTag<std::uint8_t, 16> bytes;
  const auto without_fourth = hn::Load(bytes, kWithoutFourth);
  const std::size_t pixels = taps.windows.size();
  for (std::size_t pixel = 0; pixel < pixels; pixel += kPixels) {
    std::array<std::array<hn::Vec<Lane>, kResampleBatch>, kPixels> made;
    for (std::size_t i = 0; i < kPixels; ++i) {
      const std::size_t window = pixel + i < pixels ? pixel + i : pixels - 1;
      columns_of_window(from, taps, window, made[i]);
    }
    Group group(to, pixel, pixels);
    for (std::size_t i = 0; i < kResampleBatch; ++i) {
      const auto first = hn::ReorderDemote2To(words, made[0][i], made[1][i]);
      const auto second = hn::ReorderDemote2To(words, made[2][i], made[3][i]);
      const auto four = to_bytes(first, second);
      hn::StoreU(hn::TableLookupBytesOr0(four, without_fourth), bytes, group.row(i));
    }
    group.finish();
  }
}

#if HWY_ARCH_X86
using Columns = hn::CappedTag<std::uint8_t, 64>;
#else
using Columns = hn::FixedTag<std::uint8_t, 16>;
#endif

// A vector of columns. The order that interleaving gives them, demoting takes back.
template <class D8, class Load>
HWY_INLINE hn::Vec<D8> block_of_rows(D8 d8, const std::uint8_t* const* from,
                                     const std::int32_t* packed, std::int32_t count,
                                     const Load& load) {
  using D32 = hn::Repartition<std::int32_t, D8>;
  const hn::Repartition<std::int16_t, D8> d16;
  const D32 d32;
  const auto zero = hn::Zero(d8);
  std::array<Sums<D32>, 4> sums;
  for (auto& sum : sums) sum = no_sums(d32);
  for (std::int32_t k = 0; k < count; k += 2, from += 2) {
    const std::int32_t* four = packed + static_cast<std::ptrdiff_t>(k) / 4 * 4;
    const auto high = hn::BitCast(d16, hn::Set(d32, four[k % 4 / 2]));
    const auto low = hn::BitCast(d16, hn::Set(d32, four[2 + k % 4 / 2]));
    const auto a = load(from[0]);
    const auto b = load(from[1]);
    const auto lower = hn::InterleaveLower(d8, a, b);
    const auto upper = hn::InterleaveUpper(d8, a, b);
    const auto add = [&](auto values, auto& into) {
      add_products(d32, hn::BitCast(d16, values), high, low, into);
    };
    add(hn::InterleaveLower(d8, lower, zero), sums[0]);
    add(hn::InterleaveUpper(d8, lower, zero), sums[1]);
    add(hn::InterleaveLower(d8, upper, zero), sums[2]);
    add(hn::InterleaveUpper(d8, upper, zero), sums[3]);
  }
  const auto words = [&](const auto& first, const auto& second) {
    return hn::ReorderDemote2To(d16, rounded(d32, total(d32, first)),
                                rounded(d32, total(d32, second)));
  };
  return to_bytes(words(sums[0], sums[1]), words(sums[2], sums[3]));
}

void rows(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
          std::size_t bytes, std::uint8_t* to) {
  const Columns d8;
  const std::size_t vector = hn::Lanes(d8);
  const std::int32_t count = taps.windows[window].count;
  const std::int32_t* packed = taps.weights.data() + window * taps.stride;
  if (bytes < vector) {
    alignas(64) std::array<std::uint8_t, 64> some{};
    const auto load = [&](const std::uint8_t* row) {
      std::memcpy(some.data(), row, bytes);
      return hn::Load(d8, some.data());
    };
    hn::Store(block_of_rows(d8, from, packed, count, load), d8, some.data());
    std::memcpy(to, some.data(), bytes);
    return;
  }
  const auto make = [&](std::size_t at) {
    const auto load = [&](const std::uint8_t* row) { return hn::LoadU(d8, row + at); };
    hn::StoreU(block_of_rows(d8, from, packed, count, load), d8, to + at);
  };
  for (std::size_t at = 0; at + vector <= bytes; at += vector) make(at);
  // The last columns, some of them for the second time.
  if (bytes % vector != 0) make(bytes - vector);
}

#endif

}  // namespace

ResampleKernels kernels() { return {pack_columns, pack, columns, rows}; }

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
