#include "decode/internal/area_resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace isocost {
namespace {

std::vector<std::uint8_t> noise(int width, int height) {
  Random random(static_cast<std::uint64_t>(width * 7919 + height));
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(width * height) * 3);
  for (std::uint8_t& value : rgb) value = static_cast<std::uint8_t>(random.next());
  return rgb;
}

/// The share that old position `s` has of the new position `i`.
double coverage(int s, int i, int from, int to) {
  const double scale = static_cast<double>(from) / to;
  return std::max(0.0, std::min(s + 1.0, (i + 1) * scale) - std::max<double>(s, i * scale)) / scale;
}

TEST(AreaTaps, CoverEverythingAndAddUp) {
  for (const int from : {1, 2, 3, 27, 28, 29, 100, 1001, 65'500}) {
    for (const int to : {1, 2, 3, 28, 84, 700}) {
      if (to > from) continue;
      const AreaTaps taps = area_taps(from, to);
      ASSERT_EQ(taps.taps.size(), static_cast<std::size_t>(to));
      EXPECT_EQ(taps.taps.front().first, 0);
      for (const AreaTaps::Tap& tap : taps.taps) {
        ASSERT_LE(tap.first + tap.count, from);
        const auto first = taps.weights.begin() + static_cast<std::ptrdiff_t>(tap.weights);
        ASSERT_EQ(std::accumulate(first, first + tap.count, 0U), 1U << AreaTaps::kUnitBits);
      }
      EXPECT_EQ(taps.taps.back().first + taps.taps.back().count, from);
    }
  }
}

TEST(AreaResize, IsTheMeanOfTheArea) {
  constexpr std::array<std::array<int, 4>, 8> kCases = {{{64, 48, 28, 28},
                                                         {64, 48, 64, 28},
                                                         {64, 48, 28, 48},
                                                         {57, 91, 56, 84},
                                                         {300, 31, 28, 28},
                                                         {29, 29, 28, 28},
                                                         {56, 56, 28, 28},
                                                         {3, 5, 1, 1}}};
  for (const auto& [w, h, to_w, to_h] : kCases) {
    const auto rgb = noise(w, h);
    std::vector<std::uint8_t> small(static_cast<std::size_t>(to_w * to_h) * 3);
    area_resize(rgb, w, h, small, to_w, to_h);
    for (std::size_t at = 0; at < small.size(); ++at) {
      const int pixel = static_cast<int>(at / 3);
      double mean = 0;
      for (int y = 0; y < h; ++y) {
        const double share = coverage(y, pixel / to_w, h, to_h);
        for (int x = 0; share > 0 && x < w; ++x) {
          mean += share * coverage(x, pixel % to_w, w, to_w) *
                  rgb[static_cast<std::size_t>(y * w + x) * 3 + at % 3];
        }
      }
      ASSERT_NEAR(small[at], mean, 0.75) << "value " << at << " of " << w << 'x' << h;
    }
  }
}

TEST(AreaResize, KeepsPlainColoursAndEqualSizesExactly) {
  for (const int value : {0, 1, 127, 254, 255}) {
    const std::vector<std::uint8_t> rgb(std::size_t{641} * 479 * 3,
                                        static_cast<std::uint8_t>(value));
    std::vector<std::uint8_t> small(std::size_t{504} * 392 * 3);
    area_resize(rgb, 641, 479, small, 504, 392);
    EXPECT_TRUE(std::ranges::all_of(small, [value](int v) { return v == value; }));
  }
  const auto rgb = noise(28, 56);
  std::vector<std::uint8_t> same(rgb.size());
  area_resize(rgb, 28, 56, same, 28, 56);
  EXPECT_EQ(same, rgb);
}

}  // namespace
}  // namespace isocost
