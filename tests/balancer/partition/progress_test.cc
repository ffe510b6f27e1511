#include "balancer/partition/internal/progress.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

TEST(Progress, GoesOnWhileEachWindowGainsEnough) {
  Progress progress(10, 0.25, 100, 8);
  EXPECT_FALSE(progress.stalled(95, [] { return 8.0; }));  // within the window
  EXPECT_FALSE(progress.stalled(90, [] { return 6.0; }));
  EXPECT_FALSE(progress.stalled(80, [] { return 4.5; }));
}

TEST(Progress, StallsOnceAWindowGainsTooLittle) {
  Progress progress(10, 0.25, 100, 8);
  EXPECT_FALSE(progress.stalled(90, [] { return 4.0; }));
  EXPECT_TRUE(progress.stalled(80, [] { return 3.1; }));
  EXPECT_TRUE(progress.stalled(79, [] { return 0.0; }));
}

}  // namespace
}  // namespace isocost
