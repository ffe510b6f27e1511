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

}  // namespace
}  // namespace isocost
