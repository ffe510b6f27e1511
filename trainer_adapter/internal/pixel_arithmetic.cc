// Highway compiles this file once for each set of vector instructions, and chooses among them at
// run time.

#include "trainer_adapter/internal/pixel_arithmetic.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer_adapter/internal/pixel_arithmetic.cc"
#include <hwy/foreach_target.h>  // NOLINT: before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace isocost::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

bool compute(const std::uint8_t* /*rgb*/, std::size_t /*pixels*/,
             const PixelArithmetic& /*arithmetic*/, const std::array<float*, 3>& /*rows*/) {
  return false;
}

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::FixedTag<std::uint8_t, 16>;
using Floats = hn::CappedTag<float, 16>;
using V = hn::Vec<Floats>;

constexpr std::size_t kBlock = 16;  // pixels

// The arithmetic of one channel. Products with the rescaling factor are rounded once, from 48 bits
// of the factor. The quotient equals that of a division, which would take most of the time: it is a
// product with the inverse, corrected by the remainder (P. Markstein, IA-64 and Elementary
// Functions, 2000, 8.2).
class Channel {
 public:
  Channel(const PixelArithmetic& arithmetic, std::size_t channel)
      : high_(hn::Set(Floats(), static_cast<float>(arithmetic.rescale))),
        low_(hn::Set(Floats(), static_cast<float>(
                                   arithmetic.rescale -
                                   static_cast<double>(static_cast<float>(arithmetic.rescale))))),
        mean_(hn::Set(Floats(), arithmetic.mean[channel])),
        deviation_(hn::Set(Floats(), arithmetic.deviation[channel])),
        inverse_(hn::Set(Floats(), 1.0F / arithmetic.deviation[channel])) {}

  HWY_INLINE V of(V value) const {
    const V scaled = hn::MulAdd(value, high_, hn::Mul(value, low_));
    const V centred = hn::Sub(scaled, mean_);
    const V quotient = hn::Mul(centred, inverse_);
    return hn::MulAdd(hn::NegMulAdd(quotient, deviation_, centred), inverse_, quotient);
  }

 private:
  V high_;
  V low_;
  V mean_;
  V deviation_;
  V inverse_;
};

HWY_INLINE void compute_channel(hn::Vec<Bytes> bytes, const Channel& channel, float* to) {
  const hn::Rebind<std::uint8_t, Floats> some_bytes;
  const hn::Rebind<std::int32_t, Floats> integers;
  alignas(16) std::uint8_t values[kBlock];
  hn::Store(bytes, Bytes(), values);
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(Floats())) {
    const auto numbers = hn::PromoteTo(integers, hn::LoadU(some_bytes, values + i));
    hn::StoreU(channel.of(hn::ConvertTo(Floats(), numbers)), Floats(), to + i);
  }
}

bool compute(const std::uint8_t* rgb, std::size_t pixels, const PixelArithmetic& arithmetic,
             const std::array<float*, 3>& rows) {
  if (pixels == 0) return true;
  const Channel red(arithmetic, 0);
  const Channel green(arithmetic, 1);
  const Channel blue(arithmetic, 2);
  const auto block = [&](const std::uint8_t* from, float* reds, float* greens, float* blues) {
    hn::Vec<Bytes> r;
    hn::Vec<Bytes> g;
    hn::Vec<Bytes> b;
    hn::LoadInterleaved3(Bytes(), from, r, g, b);
    compute_channel(r, red, reds);
    compute_channel(g, green, greens);
    compute_channel(b, blue, blues);
  };
  if (pixels < kBlock) {
    std::uint8_t few[3 * kBlock] = {};
    std::array<std::array<float, kBlock>, 3> made{};
    std::memcpy(few, rgb, 3 * pixels);
    block(few, made[0].data(), made[1].data(), made[2].data());
    for (std::size_t c = 0; c < 3; ++c) std::copy_n(made[c].data(), pixels, rows[c]);
    return true;
  }
  for (std::size_t i = 0; i < pixels; i += kBlock) {
    const std::size_t at =
        std::min(i, pixels - kBlock);  // the last block may overlap the one before it
    block(rgb + 3 * at, rows[0] + at, rows[1] + at, rows[2] + at);
  }
  return true;
}

}  // namespace
#endif

}  // namespace isocost::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isocost {
namespace {

HWY_EXPORT(compute);

}  // namespace

bool compute_pixels(const std::uint8_t* rgb, std::size_t pixels, const PixelArithmetic& arithmetic,
                    const std::array<float*, 3>& rows) {
  return HWY_DYNAMIC_DISPATCH(compute)(rgb, pixels, arithmetic, rows);
}

}  // namespace isocost
#endif
