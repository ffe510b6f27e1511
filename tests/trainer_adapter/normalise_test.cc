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
  normalise_pixels(rows, 2, table, 2, into);
  EXPECT_THAT(
      into, testing::ElementsAre(0, 5, 0, 5, 128.5, 133.5, 128.5, 133.5, 257, 262, 257, 262, 127.5,
                                 1.5, 127.5, 1.5, 255, 130, 255, 130, 382.5, 258.5, 382.5, 258.5));
  normalise_pixels({}, 2, table, 2, {});
}

}  // namespace
}  // namespace isocost
