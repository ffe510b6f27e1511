#include "trainer_adapter/normalise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace isocost {
namespace {

TEST(NormalisePixels, PutsChannelsApartAndRepeatsThem) {
  std::array<float, 768> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) / 2;
  // Two rows of two pixels.
  const std::vector<std::uint8_t> rows = {0, 1, 2, 10, 11, 12, 255, 254, 253, 3, 4, 5};
  std::vector<float> into(24);
  normalise_pixels(rows, 2, table, {.copies = 2}, into);
  EXPECT_THAT(
      into, testing::ElementsAre(0, 5, 0, 5, 128.5, 133.5, 128.5, 133.5, 257, 262, 257, 262, 127.5,
                                 1.5, 127.5, 1.5, 255, 130, 255, 130, 382.5, 258.5, 382.5, 258.5));
  normalise_pixels({}, 2, table, {.copies = 2}, {});
}

TEST(NormalisePixels, PutsTheFramesOfAPatchOneAfterAnother) {
  std::array<float, 768> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  // Two frames of one pixel, twice.
  const std::vector<std::uint8_t> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<float> into(12);
  normalise_pixels(rows, 1, table, {.given = 2}, into);
  EXPECT_THAT(into, testing::ElementsAre(1, 4, 258, 261, 515, 518, 7, 10, 264, 267, 521, 524));
}

// Every pixel of the picture has a value of its own, which tells where it comes from.
TEST(NormalisePictures, PutsPatchesTogetherAndCutsWhatReachesBeyond) {
  constexpr PictureLayout kLayout{.height = 7, .width = 5, .patch = 2, .merge = 2};
  constexpr std::size_t kPictures = 2;
  ASSERT_EQ(kLayout.patches(), 16U);
  std::array<float, 768> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  std::vector<std::uint8_t> patches(kPictures * kLayout.patches() * kLayout.patch_bytes(), 255);
  const auto pixel = [](std::size_t picture, std::size_t y, std::size_t x) {
    return static_cast<std::uint8_t>(picture * 100 + y * 5 + x);
  };
  for (std::size_t picture = 0; picture < kPictures; ++picture) {
    for (std::size_t y = 0; y < kLayout.height; ++y) {
      for (std::size_t x = 0; x < kLayout.width; ++x) {
        const std::size_t group = y / 4 * 2 + x / 4;
        const std::size_t patch = group * 4 + y % 4 / 2 * 2 + x % 4 / 2;
        const std::size_t at = (picture * 16 + patch) * 4 + y % 2 * 2 + x % 2;
        for (std::size_t c = 0; c < 3; ++c) patches[at * 3 + c] = pixel(picture, y, x);
      }
    }
  }
  std::vector<float> into(kPictures * 3 * 35);
  normalise_pictures(patches, kLayout, table, into);
  std::size_t at = 0;
  for (std::size_t picture = 0; picture < kPictures; ++picture) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < 35; ++i, ++at) {
        EXPECT_EQ(into[at], static_cast<float>(c * 256 + pixel(picture, i / 5, i % 5)));
      }
    }
  }
  normalise_pictures({}, kLayout, table, {});
}

}  // namespace
}  // namespace isocost
