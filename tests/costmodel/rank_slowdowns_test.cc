#include "costmodel/internal/rank_slowdowns.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/costmodel/support.h"

namespace isocost {
namespace {

// Four microbatches per rank, 3 % noise.
void step(RankSlowdowns& slowdowns, const std::vector<double>& truth, Random& random) {
  std::vector<RankRatio> samples;
  for (std::size_t rank = 0; rank < truth.size(); ++rank) {
    for (int m = 0; m < 4; ++m) {
      samples.push_back(
          {static_cast<std::int32_t>(rank), truth[rank] * (1 + 0.03 * noise(random))});
    }
  }
  slowdowns.take(samples);
}

TEST(RankSlowdowns, EqualRanksStayAtOne) {
  RankSlowdowns slowdowns;
  Random random(1);
  for (int n = 0; n < 200; ++n) {
    step(slowdowns, std::vector<double>(8, 1.0), random);
    for (const double slowdown : slowdowns.published()) EXPECT_NEAR(slowdown, 1, 0.01) << n;
  }
}

TEST(RankSlowdowns, AChangeOnAllRanksIsNotAttributedToRanks) {
  RankSlowdowns slowdowns;
  Random random(2);
  for (int n = 0; n < 60; ++n) {
    step(slowdowns, std::vector<double>(8, n < 30 ? 1.0 : 3.0), random);
    for (const double slowdown : slowdowns.published()) EXPECT_NEAR(slowdown, 1, 0.01) << n;
  }
}

TEST(RankSlowdowns, OneOutlierHasNoEffectAndThreeChangeTheSlowdown) {
  RankSlowdowns slowdowns;
  Random random(3);
  std::vector<double> truth(8, 1.0);
  for (int n = 0; n < 30; ++n) step(slowdowns, truth, random);
  truth[2] = 5;
  step(slowdowns, truth, random);
  EXPECT_TRUE(slowdowns.in_doubt(2));
  EXPECT_NEAR(slowdowns.published()[2], 1, 0.01);
  truth[2] = 1;
  step(slowdowns, truth, random);
  EXPECT_FALSE(slowdowns.in_doubt(2));
  truth[2] = 1.5;
  for (int n = 0; n < 3; ++n) step(slowdowns, truth, random);
  EXPECT_NEAR(slowdowns.published()[2], 1.5, 0.06);
}

// Before anything is learned, the faster of two ranks is the reference.
TEST(RankSlowdowns, TheFasterOfTwoIsTheReference) {
  for (const double scale : {0.003, 300.0}) {
    RankSlowdowns slowdowns;
    Random random(5);
    for (int n = 0; n < 5; ++n) step(slowdowns, {3 * scale, scale}, random);
    EXPECT_NEAR(slowdowns.published()[0], 3, 0.2);
    EXPECT_NEAR(slowdowns.published()[1], 1, 0.05);
  }
}

TEST(RankSlowdowns, DistinguishesTwoRanks) {
  RankSlowdowns slowdowns;
  Random random(4);
  for (int n = 0; n < 40; ++n) step(slowdowns, {1.0, 1.3}, random);
  EXPECT_NEAR(slowdowns.published()[1] / slowdowns.published()[0], 1.3, 0.03);
}

}  // namespace
}  // namespace isocost
