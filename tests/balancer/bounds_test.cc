#include "balancer/internal/bounds.h"

#include <gtest/gtest.h>

#include <limits>

#include "balancer/balancer.h"

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

}  // namespace
}  // namespace isocost
