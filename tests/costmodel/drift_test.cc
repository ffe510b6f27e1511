#include "costmodel/internal/drift.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

constexpr double kNoise = 0.05;
constexpr std::size_t kRows = 64;

TEST(DriftDetector, DetectsThreeStepsOnTheSameSide) {
  DriftDetector drift;
  EXPECT_FALSE(drift.take(1.2, kRows, kNoise));
  EXPECT_FALSE(drift.take(1.3, kRows, kNoise));
  EXPECT_TRUE(drift.take(1.4, kRows, kNoise));
  EXPECT_EQ(drift.drifts(), 1U);
  EXPECT_DOUBLE_EQ(drift.ratio(), 1.3);
  EXPECT_FALSE(drift.take(1.4, kRows, kNoise)) << "it counts anew";
}

// A doubt about a module that does not come again ends.
TEST(DriftDetector, IsNotOffForeverWhereTheModuleStopsComing) {
  DriftDetector drift;
  drift.take(1.5, 10, 0.01);
  for (int step = 1; step < kDriftSteps; ++step) {
    drift.take(1, 0, 0.01);
    EXPECT_TRUE(drift.is_off());
  }
  drift.take(1, 0, 0.01);
  EXPECT_FALSE(drift.is_off());
  drift.take(1.5, 10, 0.01);
  EXPECT_TRUE(drift.is_off());
  EXPECT_TRUE(drift.take(1.5, 10, 0.01)) << "steps without it do not break the row";
}

TEST(DriftDetector, AUsualStepOrAStepOnTheOtherSideResetsTheCount) {
  DriftDetector drift;
  for (const double ratio : {1.2, 1.2, 1.0, 1.2, 1.2, 0.8, 0.8, 1.2, 1.2}) {
    EXPECT_FALSE(drift.take(ratio, kRows, kNoise));
  }
  EXPECT_EQ(drift.drifts(), 0U);
  EXPECT_TRUE(drift.take(1.2, kRows, kNoise));
}

TEST(DriftDetector, NoiseIsNoDrift) {
  DriftDetector drift;
  for (int step = 0; step < 10; ++step) {
    EXPECT_FALSE(drift.take(1.2, 4, 0.1)) << "0.25 of four rows may be chance";
    EXPECT_FALSE(drift.take(1.04, 1'000'000, 0.001)) << "too small to matter";
  }
}

TEST(DriftDetector, StepsWithoutRowsDoNotCount) {
  DriftDetector drift;
  EXPECT_FALSE(drift.take(1.2, kRows, kNoise));
  EXPECT_FALSE(drift.take(1.2, kRows, kNoise));
  EXPECT_FALSE(drift.take(1.0, 0, kNoise));
  EXPECT_TRUE(drift.take(1.2, kRows, kNoise));
}

TEST(DriftDetector, ARestartForgetsStepsButNotDrifts) {
  DriftDetector drift;
  for (int step = 0; step < 3; ++step) drift.take(0.5, kRows, kNoise);
  drift.take(0.5, kRows, kNoise);
  drift.take(0.5, kRows, kNoise);
  drift.restart();
  EXPECT_FALSE(drift.take(0.5, kRows, kNoise));
  EXPECT_EQ(drift.drifts(), 1U);
  EXPECT_DOUBLE_EQ(drift.ratio(), 0.5);
}

}  // namespace
}  // namespace isocost
