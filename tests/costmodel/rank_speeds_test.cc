#include "costmodel/internal/rank_speeds.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/costmodel/support.h"

namespace isocost {
namespace {

// Four microbatches a rank, 3 % noise.
void step(RankSpeeds& speeds, const std::vector<double>& truth, Random& random) {
  std::vector<RankRatio> samples;
  for (std::size_t rank = 0; rank < truth.size(); ++rank) {
    for (int m = 0; m < 4; ++m) {
      samples.push_back(
          {static_cast<std::int32_t>(rank), truth[rank] * (1 + 0.03 * noise(random))});
    }
  }
  speeds.take(samples);
}

TEST(RankSpeeds, EqualRanksStayAtOne) {
  RankSpeeds speeds;
  Random random(1);
  for (int n = 0; n < 200; ++n) {
    step(speeds, std::vector<double>(8, 1.0), random);
    for (const double speed : speeds.published()) EXPECT_NEAR(speed, 1, 0.01) << n;
  }
}

TEST(RankSpeeds, WhatSlowsAllRanksIsNoRanksFault) {
  RankSpeeds speeds;
  Random random(2);
  for (int n = 0; n < 60; ++n) {
    step(speeds, std::vector<double>(8, n < 30 ? 1.0 : 3.0), random);
    for (const double speed : speeds.published()) EXPECT_NEAR(speed, 1, 0.01) << n;
  }
}

TEST(RankSpeeds, OneBadStepMovesNothingThreeMoveAtOnce) {
  RankSpeeds speeds;
  Random random(3);
  std::vector<double> truth(8, 1.0);
  for (int n = 0; n < 30; ++n) step(speeds, truth, random);
  truth[2] = 5;
  step(speeds, truth, random);
  EXPECT_TRUE(speeds.in_doubt(2));
  EXPECT_NEAR(speeds.published()[2], 1, 0.01);
  truth[2] = 1;
  step(speeds, truth, random);
  EXPECT_FALSE(speeds.in_doubt(2));
  truth[2] = 1.5;
  for (int n = 0; n < 3; ++n) step(speeds, truth, random);
  EXPECT_NEAR(speeds.published()[2], 1.5, 0.06);
}

// At the start no scale is known, and the slower one may seem the usual one.
TEST(RankSpeeds, TheFasterOfTwoIsTheMeasure) {
  for (const double scale : {0.003, 300.0}) {
    RankSpeeds speeds;
    Random random(5);
    for (int n = 0; n < 5; ++n) step(speeds, {3 * scale, scale}, random);
    EXPECT_NEAR(speeds.published()[0], 3, 0.2);
    EXPECT_NEAR(speeds.published()[1], 1, 0.05);
  }
}

TEST(RankSpeeds, TwoRanksAreToldApart) {
  RankSpeeds speeds;
  Random random(4);
  for (int n = 0; n < 40; ++n) step(speeds, {1.0, 1.3}, random);
  EXPECT_NEAR(speeds.published()[1] / speeds.published()[0], 1.3, 0.03);
}

}  // namespace
}  // namespace isocost
