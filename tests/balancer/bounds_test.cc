#include "balancer/internal/bounds.h"

#include <gtest/gtest.h>

#include <limits>

#include "balancer/balancer.h"
#include "balancer/internal/speed_bounds.h"

namespace isocost {
namespace {

TEST(Bounds, PigeonholeCountsItemsThatMustShare) {
  // Three bins, four items of 5 and more: two share a bin.
  EXPECT_DOUBLE_EQ(pigeonhole_bound({9, 6, 5, 5, 1}, 3, 1), 10);
  // One item larger than any pair.
  EXPECT_DOUBLE_EQ(pigeonhole_bound({30, 6, 5, 5, 1}, 3, 1), 30);
}

TEST(Bounds, PigeonholeAddsTheItemsThatABinMustHoldBesides) {
  // Two ranks of at least three items: the one with the 10 also holds two more, 1 and 2 at least.
  EXPECT_DOUBLE_EQ(pigeonhole_bound({10, 3, 2, 2, 2, 1}, 2, 3), 13);
}

TEST(Bounds, GranularityRoundsTheMeanUpToWholeTiles) {
  // Seven tiles into two bins.
  EXPECT_DOUBLE_EQ(granularity_bound({0.75, 0.5, 0.5}, 2), 1.0);
  // No common tile: no statement.
  EXPECT_EQ(granularity_bound({0.7310585, 0.5, 0.3333}, 2), 0);
  EXPECT_EQ(granularity_bound({0, 0}, 2), 0);
}

TEST(Bounds, RanksAreBoundedByTheSumOverDimensions) {
  BalanceProblem problem{.dimensions = 2,
                         .costs = {1, 2, 3, 4, 1, 1, 1, 1},
                         .ranks = 2,
                         .microbatches = 2,
                         .objective = Objective::kSlowestRank};
  // Totals 3, 7, 2, 2: the rank that holds the 7 holds a 2 besides.
  EXPECT_NEAR(lower_bound(problem), 9, 1e-12);
  problem.objective = Objective::kLargestMicrobatch;
  EXPECT_NEAR(lower_bound(problem), 4, 1e-12);
}

TEST(SpeedBounds, TheSumIsSharedByRate) {
  // A bin at half the pace of the other: 9 are shared 6 to 3.
  EXPECT_DOUBLE_EQ(speed_mean_bound({3, 3, 2, 1}, std::vector<double>{1, 2}), 6);
  // The largest lies in one bin, at best in the fastest.
  EXPECT_DOUBLE_EQ(speed_mean_bound({10, 1, 1}, std::vector<double>{1, 1, 4}), 10);
}

TEST(SpeedBounds, PigeonholeCountsWhatFitsAtEachPace) {
  // Three of 5: the fast bin takes two in 10, the slow one a single one in 10.
  EXPECT_NEAR(speed_pigeonhole_bound({5, 5, 5}, std::vector<double>{1, 2}, 1), 10, 1e-9);
  // As with like bins, at every k.
  const std::vector<double> costs = {9, 6, 5, 5, 4, 4, 4, 1};
  EXPECT_NEAR(speed_pigeonhole_bound(costs, std::vector<double>{1, 1, 1}, 1),
              pigeonhole_bound(costs, 3, 1), 1e-9);
  // The slowest bin must hold something: 1 at a pace of 50.
  EXPECT_NEAR(speed_pigeonhole_bound(costs, std::vector<double>{1, 1, 50}, 1), 50, 1e-9);
}

TEST(SpeedBounds, TilesFillBinsInWholeNumbers) {
  // Seven tiles of a quarter: 5 and 2 in 1.25, for 4 and 2 leave one over.
  EXPECT_NEAR(speed_granularity_bound({0.75, 0.5, 0.5}, std::vector<double>{1, 2}), 1.25, 1e-9);
  EXPECT_NEAR(speed_granularity_bound({0.75, 0.5, 0.5}, std::vector<double>{1, 1}), 1, 1e-9);
}

}  // namespace
}  // namespace isocost
