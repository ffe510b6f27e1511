// Resized images against Pillow's. make_pillow_resize_goldens.py made pillow_resize_goldens.txt
// from the same images.

#include "decode/resize/pillow_resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "decode/resize/resample_kernels.h"
#include "tests/support/test_pattern.h"

namespace isocost {
namespace {

using test::fnv1a;

ResampleFilter filter_of(const std::string& name) {
  if (name == "bilinear") return ResampleFilter::kBilinear;
  return name == "bicubic" ? ResampleFilter::kBicubic : ResampleFilter::kLanczos;
}

struct Golden {
  int order = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::int32_t to_width = 0;
  std::int32_t to_height = 0;
  std::string filter;
  std::uint64_t hash = 0;
  Exactness exactness = Exactness::kExact;
};

std::vector<Golden> goldens() {
  std::ifstream lines(ISOCOST_SOURCE_DIR "/tests/decode/resize/pillow_resize_goldens.txt");
  std::vector<Golden> result;
  Golden golden;
  while (lines >> golden.order >> golden.width >> golden.height >> golden.to_width >>
         golden.to_height >> golden.filter >> std::hex >> golden.hash >> std::dec) {
    result.push_back(golden);
  }
  return result;
}

std::vector<std::uint8_t> resized(const std::vector<std::uint8_t>& rgb, const Golden& golden,
                                  const ResampleKernels& kernels) {
  std::vector<std::uint8_t> small(static_cast<std::size_t>(golden.to_width) *
                                  static_cast<std::size_t>(golden.to_height) * 3);
  const ExactResize resize{filter_of(golden.filter),
                           golden.order == 13 ? ResizeOrder::kPillow13 : ResizeOrder::kWidthFirst,
                           golden.exactness};
  pillow_resize(rgb, golden.width, golden.height, small, golden.to_width, golden.to_height, resize,
                kernels);
  return small;
}

TEST(PillowResize, GivesPillowsBytes) {
  // Small images show all that the slow kernels do.
  constexpr std::int32_t kWidest = 1000;
  const std::vector<Golden> cases = goldens();
  ASSERT_GE(cases.size(), 200U);
  Golden last;
  std::vector<std::uint8_t> rgb;
  for (const Golden& golden : cases) {
    SCOPED_TRACE(::testing::Message()
                 << golden.width << 'x' << golden.height << " to " << golden.to_width << 'x'
                 << golden.to_height << ' ' << golden.filter << ", order " << golden.order);
    if (golden.width != last.width || golden.height != last.height) {
      rgb = test::test_pattern(golden.width, golden.height);
      last = golden;
    }
    EXPECT_EQ(fnv1a(resized(rgb, golden, fastest_kernels())), golden.hash);
    if (golden.width > kWidest) continue;
    EXPECT_EQ(fnv1a(resized(rgb, golden, portable_kernels())), golden.hash);
  }
}

TEST(PillowResize, IsTheSameWithEveryProcessorsVectors) {
  const std::vector<ResampleTarget> targets = resample_targets();
  std::mt19937 random(1);
  const auto side = [&random] {
    return std::int32_t(1 + random() % (random() % 4 == 0 ? 700 : 90));
  };
  const std::array<const char*, 3> filters = {"bilinear", "bicubic", "lanczos"};
  for (int i = 0; i < 150; ++i) {
    const Golden sizes{12,     side(),
                       side(), side(),
                       side(), filters.at(static_cast<std::size_t>(i) % filters.size()),
                       0,      i % 2 == 0 ? Exactness::kFast : Exactness::kExact};
    SCOPED_TRACE(::testing::Message() << sizes.width << 'x' << sizes.height << " to "
                                      << sizes.to_width << 'x' << sizes.to_height);
    const auto rgb = test::test_pattern(sizes.width, sizes.height);
    const auto plain = resized(rgb, sizes, portable_kernels());
    for (const ResampleTarget& target : targets) {
      EXPECT_EQ(resized(rgb, sizes, target.kernels), plain) << target.name;
    }
  }
}

// From widths that have too few values for a vector to those whose windows begin too far apart, or
// are too long, for the kernel of neighbouring values.
TEST(PillowResize, IsTheSameWhetherOrNotWindowsAreNear) {
  constexpr std::int32_t kWidth = 97;
  constexpr std::int32_t kHeight = 9;
  const std::vector<ResampleTarget> targets = resample_targets();
  const auto rgb = test::test_pattern(kWidth, kHeight);
  for (std::int32_t to_width = 1; to_width < 2 * kWidth; ++to_width) {
    for (const char* filter : {"bilinear", "bicubic", "lanczos"}) {
      for (const auto exactness : {Exactness::kExact, Exactness::kFast}) {
        const Golden sizes{12, kWidth, kHeight, to_width, kHeight, filter, 0, exactness};
        const auto plain = resized(rgb, sizes, portable_kernels());
        for (const ResampleTarget& target : targets) {
          ASSERT_EQ(resized(rgb, sizes, target.kernels), plain)
              << target.name << ", " << filter << " to " << to_width;
        }
      }
    }
  }
}

// Sums come nearest to what vectors hold if all positive weights meet white and all negative
// ones black: in pictures of nothing else.
TEST(PillowResize, IsTheSameInBlackAndWhite) {
  constexpr std::int32_t kWidth = 60;
  constexpr std::int32_t kHeight = 50;
  const std::vector<ResampleTarget> targets = resample_targets();
  std::mt19937 random(3);
  std::vector<std::uint8_t> rgb(std::size_t{kWidth} * kHeight * 3);
  for (auto& value : rgb) value = random() % 2 == 0 ? 0 : 255;
  for (const std::int32_t side : {7, 31, 47, 55, 59, 61, 64, 90, 240}) {
    for (const char* filter : {"bicubic", "lanczos"}) {
      const Golden sizes{12, kWidth, kHeight, side, side, filter};
      const auto plain = resized(rgb, sizes, portable_kernels());
      for (const ResampleTarget& target : targets) {
        EXPECT_EQ(resized(rgb, sizes, target.kernels), plain) << target.name << " to " << side;
      }
    }
  }
}

TEST(PillowResize, IsAboutTheSameWithCoarseWeights) {
  std::mt19937 random(2);
  const auto side = [&random](int most) { return std::int32_t(most / 8 + random() % 300U); };
  bool differs = false;
  for (int i = 0; i < 40; ++i) {
    Golden sizes{12, side(0) + 1, side(0) + 1, 0, 0, i % 2 == 0 ? "bicubic" : "lanczos", 0};
    sizes.to_width = side(sizes.width) + 1;
    sizes.to_height = side(sizes.height) + 1;
    const auto rgb = test::test_pattern(sizes.width, sizes.height);
    const auto exact = resized(rgb, sizes, fastest_kernels());
    sizes.exactness = Exactness::kFast;
    const auto coarse = resized(rgb, sizes, fastest_kernels());
    differs = differs || coarse != exact;
    for (std::size_t at = 0; at < exact.size(); ++at) ASSERT_NEAR(coarse[at], exact[at], 2);
  }
  EXPECT_TRUE(differs);
}

TEST(PillowResize, MakesAPartAsItMakesTheWhole) {
  struct Case {
    std::int32_t width, height, to_width, to_height;
    PixelArea part;
  };
  constexpr auto kCases = std::to_array<Case>({{61, 47, 84, 28, {3, 5, 40, 20}},
                                               {61, 47, 61, 47, {3, 5, 40, 20}},
                                               {61, 47, 61, 28, {60, 0, 1, 28}},
                                               {61, 47, 61, 28, {0, 3, 61, 20}},
                                               {61, 47, 84, 47, {0, 46, 84, 1}},
                                               {61, 47, 84, 47, {50, 0, 30, 47}},
                                               {200, 300, 33, 50, {0, 20, 33, 28}},
                                               {3, 90, 60, 1800, {0, 870, 60, 60}},
                                               {1, 1, 40, 50, {7, 9, 20, 30}}});
  for (const auto& [width, height, to_width, to_height, part] : kCases) {
    const auto rgb = test::test_pattern(width, height);
    for (const auto filter :
         {ResampleFilter::kBilinear, ResampleFilter::kBicubic, ResampleFilter::kLanczos}) {
      for (const auto order : {ResizeOrder::kWidthFirst, ResizeOrder::kPillow13}) {
        std::vector<std::uint8_t> whole(static_cast<std::size_t>(to_width) *
                                        static_cast<std::size_t>(to_height) * 3);
        pillow_resize(rgb, width, height, whole, to_width, to_height, {filter, order});
        std::vector<std::uint8_t> made(static_cast<std::size_t>(part.width) *
                                       static_cast<std::size_t>(part.height) * 3);
        pillow_resize_part(rgb, width, height, made, to_width, to_height, part, {filter, order});
        std::vector<std::uint8_t> wanted;
        for (std::int32_t y = part.y; y < part.y + part.height; ++y) {
          const auto row = whole.begin() + (std::ptrdiff_t{y} * to_width + part.x) * 3;
          wanted.insert(wanted.end(), row, row + std::ptrdiff_t{part.width} * 3);
        }
        EXPECT_EQ(made, wanted) << width << 'x' << height << " to " << to_width << 'x' << to_height;
      }
    }
  }
}

TEST(PillowResize, KeepsPlainColours) {
  for (const int value : {0, 1, 127, 254, 255}) {
    const std::vector<std::uint8_t> rgb(std::size_t{61} * 47 * 3, static_cast<std::uint8_t>(value));
    for (const auto filter :
         {ResampleFilter::kBilinear, ResampleFilter::kBicubic, ResampleFilter::kLanczos}) {
      std::vector<std::uint8_t> large(std::size_t{84} * 28 * 3);
      pillow_resize(rgb, 61, 47, large, 84, 28, {filter, ResizeOrder::kPillow13});
      EXPECT_TRUE(std::ranges::all_of(large, [value](int v) { return v == value; }));
    }
  }
}

TEST(PillowResize, HoldsAFewRowsOnly) {
  // 39 rows of 1036 pixels and two sides' weights; the image between the passes would be 18 MB.
  EXPECT_LT(pillow_resize_working_set_bytes(8000, 6000, 1036, 784, ResampleFilter::kBicubic,
                                            ResizeOrder::kPillow13),
            800'000);
  EXPECT_LT(pillow_resize_working_set_bytes(8000, 6000, 8000, 6000, ResampleFilter::kBicubic,
                                            ResizeOrder::kPillow13),
            300'000);
}

}  // namespace
}  // namespace isocost
