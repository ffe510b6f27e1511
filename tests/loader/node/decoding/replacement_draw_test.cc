#include "loader/node/decoding/internal/replacement_draw.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace isocost {
namespace {

std::vector<SampleId> draw_all(std::uint64_t seed, SampleId bad, std::uint64_t samples,
                               const std::vector<SampleId>& taken) {
  ReplacementDraw draw(seed, bad, {0, samples});
  std::vector<SampleId> drawn;
  while (const auto id = draw.next(taken)) drawn.push_back(*id);
  return drawn;
}

TEST(ReplacementDraw, IsTheSameInEveryRunAndFollowsFromSeedAndSample) {
  const std::vector<SampleId> drawn = draw_all(7, 3, 1000, {});
  EXPECT_EQ(drawn.size(), 16U);
  EXPECT_EQ(drawn, draw_all(7, 3, 1000, {}));
  EXPECT_NE(drawn, draw_all(8, 3, 1000, {}));
  EXPECT_NE(drawn, draw_all(7, 4, 1000, {}));
}

TEST(ReplacementDraw, LeavesOutWhatIsTaken) {
  const std::vector<SampleId> drawn = draw_all(7, 3, 4, {0, 1, 3});
  EXPECT_FALSE(drawn.empty());
  for (const SampleId id : drawn) EXPECT_EQ(id, 2U);
}

TEST(ReplacementDraw, StaysInTheSourceAndIsTheSameWhereverItsSamplesBegin) {
  std::vector<SampleId> shifted;
  ReplacementDraw draw(7, 503, {500, 20});
  while (const auto id = draw.next({})) shifted.push_back(*id - 500);
  EXPECT_EQ(shifted, draw_all(7, 3, 20, {}));
}

TEST(ReplacementDraw, EndsWhereAllAreTaken) { EXPECT_TRUE(draw_all(7, 0, 2, {0, 1}).empty()); }

}  // namespace
}  // namespace isocost
