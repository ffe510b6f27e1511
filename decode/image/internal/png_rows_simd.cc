// The kernels of png_rows.h for vectors. Highway compiles this file once for each set of vector
// instructions, and chooses among them at run time.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/image/internal/png_rows_simd.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "decode/image/internal/png_rows.h"
#include "decode/resize/simd_targets.h"

HWY_BEFORE_NAMESPACE();
namespace isocost::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

PngRowKernels png_kernels() { return portable_png_kernels(); }

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A pixel of three or four bytes, and the same pixel as 16-bit numbers. A pixel needs the one to
// its left, so a row is one long chain, and only the operations that combine a pixel with its left
// neighbour determine the time.
using Pixel = hn::FixedTag<std::uint8_t, 4>;
using Words = hn::FixedTag<std::int16_t, 4>;
using V = hn::Vec<Words>;

// Adds bytes; the high byte of each number is zero in both.
HWY_INLINE V add_bytes(V a, V b) {
  const hn::Repartition<std::uint8_t, Words> d8;
  return hn::BitCast(Words(), hn::Add(hn::BitCast(d8, a), hn::BitCast(d8, b)));
}

template <std::size_t kBytes, class Predict>
HWY_INLINE void restore(const std::uint8_t* row, const std::uint8_t* above, std::size_t bytes,
                        std::uint8_t* to, Predict predict) {
  const Words words;
  V left = hn::Zero(words);
  V corner = hn::Zero(words);
  for (std::size_t i = 0; i < bytes; i += kBytes) {
    const V up = hn::PromoteTo(words, hn::LoadU(Pixel(), above + i));
    const V stored = hn::PromoteTo(words, hn::LoadU(Pixel(), row + i));
    left = add_bytes(stored, predict(left, up, corner));
    hn::StoreU(hn::DemoteTo(Pixel(), left), Pixel(), to + i);
    corner = up;
  }
}

template <std::size_t kBytes>
void sub(const std::uint8_t* row, std::size_t bytes, std::uint8_t* to) {
  auto left = hn::Zero(Pixel());
  for (std::size_t i = 0; i < bytes; i += kBytes) {
    left = hn::Add(left, hn::LoadU(Pixel(), row + i));
    hn::StoreU(left, Pixel(), to + i);
  }
}

void up(const std::uint8_t* row, const std::uint8_t* above, std::size_t bytes, std::uint8_t* to) {
  const hn::CappedTag<std::uint8_t, kPngRowSlack> d8;
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d8)) {
    hn::StoreU(hn::Add(hn::LoadU(d8, row + i), hn::LoadU(d8, above + i)), d8, to + i);
  }
}

HWY_INLINE V average(V left, V up, V /*corner*/) { return hn::ShiftRight<1>(hn::Add(left, up)); }

// Returns the nearest of the three by comparisons only: 3 * corner - left - up lies beyond the
// greater of left and up if that one is farthest from the prediction, and so on. Ties resolve as
// the specification demands.
HWY_INLINE V paeth(V left, V up, V corner) {
  const V lower = hn::Min(left, up);
  const V upper = hn::Max(left, up);
  const V rest = hn::Sub(hn::Add(hn::Add(corner, corner), corner), up);
  const V threshold = hn::Sub(rest, left);
  const V inner = hn::IfThenElse(hn::Gt(upper, threshold), corner, lower);
  return hn::IfThenElse(hn::Gt(threshold, lower), inner, upper);
}

template <std::size_t kBytes>
void unfilter_pixels(PngFilter filter, const std::uint8_t* row, const std::uint8_t* above,
                     std::size_t bytes, std::uint8_t* to) {
  if (filter == PngFilter::kSub) return sub<kBytes>(row, bytes, to);
  if (filter == PngFilter::kAverage) return restore<kBytes>(row, above, bytes, to, average);
  restore<kBytes>(row, above, bytes, to, paeth);
}

void unfilter(PngFilter filter, std::size_t pixel_bytes, const std::uint8_t* row,
              const std::uint8_t* above, std::size_t bytes, std::uint8_t* to) {
  if (filter == PngFilter::kUp) return up(row, above, bytes, to);
  if (filter == PngFilter::kNone || pixel_bytes < 3) {
    return portable_png_kernels().unfilter(filter, pixel_bytes, row, above, bytes, to);
  }
  if (pixel_bytes == 3) return unfilter_pixels<3>(filter, row, above, bytes, to);
  unfilter_pixels<4>(filter, row, above, bytes, to);
}

// Four pixels.
using Pixels = hn::FixedTag<std::uint8_t, 16>;

HWY_INLINE hn::Vec<Pixels> colours_of(hn::Vec<Pixels> rgba) {
  alignas(16) constexpr std::uint8_t kColours[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                                     10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  return hn::TableLookupBytesOr0(rgba, hn::Load(Pixels(), kColours));
}

void drop_alpha(const std::uint8_t* rgba, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; i += 4) {
    hn::StoreU(colours_of(hn::LoadU(Pixels(), rgba + 4 * i)), Pixels(), rgb + 3 * i);
  }
}

// Puts two pixels on white, alpha included. A sum below 2^16 is divided by 255 by multiplying with
// 2^23 / 255.
HWY_INLINE hn::Vec<hn::Half<Pixels> > mix(const std::uint8_t* rgba) {
  const hn::Half<Pixels> d8;
  const hn::FixedTag<std::uint16_t, 8> d16;
  alignas(16) constexpr std::uint8_t kAlphas[16] = {6,  7,  6,  7,  6,  7,  6,  7,
                                                    14, 15, 14, 15, 14, 15, 14, 15};
  const auto most = hn::Set(d16, std::uint16_t{255});
  const auto half = hn::Set(d16, std::uint16_t{127});
  const auto colour = hn::PromoteTo(d16, hn::LoadU(d8, rgba));
  const auto alpha = hn::BitCast(
      d16, hn::TableLookupBytes(hn::BitCast(Pixels(), colour), hn::Load(Pixels(), kAlphas)));
  const auto white = hn::Add(hn::Mul(hn::Sub(most, alpha), most), half);
  const auto sum = hn::Add(hn::Mul(colour, alpha), white);
  const auto mixed = hn::ShiftRight<7>(hn::MulHigh(sum, hn::Set(d16, std::uint16_t{0x8081})));
  return hn::DemoteTo(d8, hn::BitCast(hn::RebindToSigned<decltype(d16)>(), mixed));
}

// Lays pixels on white. Most pixels of most pictures are opaque, so four opaque pixels are only
// copied.
void on_white(const std::uint8_t* rgba, std::size_t pixels, std::uint8_t* rgb) {
  const hn::Repartition<std::uint32_t, Pixels> d32;
  const auto colours = hn::Set(d32, 0x00FFFFFFU);
  const auto opaque = hn::Set(d32, 0xFFFFFFFFU);
  for (std::size_t i = 0; i < pixels; i += 4) {
    const std::uint8_t* at = rgba + 4 * i;
    auto four = hn::LoadU(Pixels(), at);
    if (!hn::AllTrue(d32, hn::Eq(hn::Or(hn::BitCast(d32, four), colours), opaque))) {
      four = hn::Combine(Pixels(), mix(at + 8), mix(at));
    }
    hn::StoreU(colours_of(four), Pixels(), rgb + 3 * i);
  }
}

}  // namespace

PngRowKernels png_kernels() { return {unfilter, drop_alpha, on_white}; }

#endif

}  // namespace isocost::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace isocost {

HWY_EXPORT(png_kernels);

namespace {

PngRowKernels chosen_png_kernels() { return HWY_DYNAMIC_DISPATCH(png_kernels)(); }

}  // namespace

const PngRowKernels& fastest_png_kernels() { return fastest_target<chosen_png_kernels>(); }

std::vector<PngRowTarget> png_row_targets() { return simd_targets(chosen_png_kernels); }

}  // namespace isocost
#endif
