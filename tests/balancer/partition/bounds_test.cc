#include "balancer/partition/internal/bounds.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "balancer/partition/balance.h"
#include "balancer/partition/internal/slowdown_bounds.h"

namespace isocost {
namespace {

TEST(Bounds, PigeonholeCountsItemsThatMustShare) {
  // Three bins, four items of 5 and more: two share a bin.
  EXPECT_DOUBLE_EQ(pigeonhole_bound({9, 6, 5, 5, 1}, 3, 1).value, 10);
  EXPECT_EQ(pigeonhole_bound({9, 6, 5, 5, 1}, 3, 1).limit, Limit::kPigeonhole);
  // One item larger than any pair.
  EXPECT_DOUBLE_EQ(pigeonhole_bound({30, 6, 5, 5, 1}, 3, 1).value, 30);
  EXPECT_EQ(pigeonhole_bound({30, 6, 5, 5, 1}, 3, 1).limit, Limit::kLargestItem);
}

TEST(Bounds, PigeonholeAddsTheItemsThatABinMustHoldInAddition) {
  // Two ranks of at least three items: the one with the 10 also holds two more, 1 and 2 at least.
  EXPECT_DOUBLE_EQ(pigeonhole_bound({10, 3, 2, 2, 2, 1}, 2, 3).value, 13);
  EXPECT_EQ(pigeonhole_bound({10, 3, 2, 2, 2, 1}, 2, 3).limit, Limit::kCounts);
}

TEST(Bounds, GranularityRoundsTheMeanUpToWholeTiles) {
  // Seven tiles into two bins.
  EXPECT_DOUBLE_EQ(granularity_bound({0.75, 0.5, 0.5}, 2), 1.0);
  // Without a common tile the bound is 0.
  EXPECT_EQ(granularity_bound({0.7310585, 0.5, 0.3333}, 2), 0);
  EXPECT_EQ(granularity_bound({0, 0}, 2), 0);
}

TEST(Bounds, RanksAreBoundedByTheSumOverDimensions) {
  BalanceProblem problem{.dimensions = 2,
                         .costs = {1, 2, 3, 4, 1, 1, 1, 1},
                         .ranks = 2,
                         .microbatches = 2,
                         .objective = Objective::kSlowestRank};
  // Totals 3, 7, 2, 2: the rank that holds the 7 also holds a 2.
  EXPECT_NEAR(lower_bound(problem), 9, 1e-12);
  problem.objective = Objective::kLargestMicrobatch;
  EXPECT_NEAR(lower_bound(problem), 4, 1e-12);
}

TEST(Bounds, CapsKeepItemsApart) {
  // Two items of 6 bytes have a bin each of the three; items of more than 4 bytes share the third.
  const std::vector<double> costs = {1, 1, 5, 4, 9};
  const std::vector<std::int64_t> bytes = {6, 6, 5, 5, 1};
  const Partition problem{.bins = 3, .costs = costs, .resources = 1, .sizes = bytes, .caps = {10}};
  EXPECT_NEAR(cap_bound(problem), 9, 1e-9);
  Partition loose = problem;
  loose.caps = {12};
  EXPECT_EQ(cap_bound(loose), 0);
  // In two bins there is no third.
  Partition two = problem;
  two.bins = 2;
  EXPECT_EQ(cap_bound(two), std::numeric_limits<double>::infinity());
}

TEST(Bounds, UnusableRoomBesideDominantSamplesRaisesTheBound) {
  // Five dominant samples in two bins: one holds three of them, beside which only the smallest
  // fits. The other holds two and the nine in between, 10.2, where the mean is 10.055.
  std::vector<double> costs(5, 3.3);
  costs.insert(costs.end(), 9, 0.4);
  costs.push_back(0.01);
  EXPECT_NEAR(mean_bound(std::accumulate(costs.begin(), costs.end(), 0.0), 2), 10.055, 1e-9);
  EXPECT_NEAR(crowd_bound({.bins = 2, .costs = costs}), 10.2, 1e-9);
  EXPECT_NEAR(balance({.costs = costs, .ranks = 2}, {.exact_items = 0})->gap(), 0, 1e-12);
  // If enough small items fit beside the three, the bound is the mean.
  costs.insert(costs.end(), 3, 0.1);
  EXPECT_LE(crowd_bound({.bins = 2, .costs = costs}), 10.205);
}

TEST(Bounds, SlowBinsHoldTheBytesThatFastBinsCannotHold) {
  // Twelve items of one second and one byte. The fast bin holds seven, so the slow one holds five,
  // at twice the time.
  const std::vector<double> costs(12, 1.0);
  const std::vector<std::int64_t> bytes(12, 1);
  const std::vector<double> slowdowns = {1, 2};
  Partition problem{.bins = 2,
                    .costs = costs,
                    .resources = 1,
                    .sizes = bytes,
                    .caps = {7},
                    .slowdowns = slowdowns};
  EXPECT_NEAR(capped_slowdown_bound(problem), 10, 1e-9);
  problem.caps = {12};
  EXPECT_NEAR(capped_slowdown_bound(problem), 8, 1e-9);  // equals the bound by slowdowns alone
  problem.slowdowns = {};
  EXPECT_EQ(capped_slowdown_bound(problem), 0);
}

TEST(Bounds, TradeOffDetectsItemsThatAreLargeInDifferentDimensions) {
  // Two bins: whichever two of the three items share one, its load is at least 11 in a dimension.
  const std::vector<double> costs = {10, 1, 1, 10, 10, 1};
  const Partition problem{.dimensions = 2, .bins = 2, .costs = costs};
  EXPECT_NEAR(trade_off_bound(problem), 11, 1e-9);
  const auto bound = find_lower_bound({.dimensions = 2, .costs = costs, .ranks = 2});
  EXPECT_NEAR(bound.value, 11, 1e-9);
}

TEST(Bounds, NameTheLimit) {
  const auto limit = [](std::vector<double> costs, std::size_t ranks) {
    return find_lower_bound({.costs = std::move(costs), .ranks = ranks}).limit;
  };
  EXPECT_EQ(limit({1.1, 1.3, 0.9, 0.77}, 2), Limit::kTotal);
  EXPECT_EQ(limit({9, 1.3, 0.9, 0.77}, 2), Limit::kLargestItem);
  EXPECT_EQ(limit({5.3, 5.2, 5.1, 5.07, 0.3}, 3), Limit::kPigeonhole);
  EXPECT_EQ(limit({2, 2, 2, 1, 1, 1}, 2), Limit::kTiles);
  EXPECT_EQ(find_lower_bound({.costs = {10, 3, 2, 2, 2, 1.1},
                              .ranks = 2,
                              .microbatches = 3,
                              .objective = Objective::kSlowestRank})
                .limit,
            Limit::kCounts);
  EXPECT_EQ(find_lower_bound({.costs = {1, 1.1, 5, 6, 9},
                              .sizes = {6, 6, 5, 5, 5},
                              .resources = {{"bytes", 10}},
                              .ranks = 4})
                .limit,
            Limit::kCap);
  EXPECT_EQ(limit_name(Limit::kTradeOff), "trade-off");
}

TEST(SlowdownBounds, TheSumIsSharedByRate) {
  // One bin is half as fast as the other: 9 are divided into 6 and 3.
  EXPECT_DOUBLE_EQ(slowdown_mean_bound({3, 3, 2, 1}, std::vector<double>{1, 2}), 6);
  // The largest item is in one bin, at best the fastest.
  EXPECT_DOUBLE_EQ(slowdown_largest_item_bound({10, 1, 1}, std::vector<double>{1, 1, 4}), 10);
}

TEST(SlowdownBounds, PigeonholeCountsTheItemsThatFitAtEachSlowdown) {
  // Three of 5: the fast bin takes two in 10, the slow one a single one in 10.
  EXPECT_NEAR(slowdown_pigeonhole_bound({5, 5, 5}, std::vector<double>{1, 2}, 1), 10, 1e-9);
  // Equal slowdowns give the bound for equal bins.
  const std::vector<double> costs = {9, 6, 5, 5, 4, 4, 4, 1};
  EXPECT_NEAR(slowdown_pigeonhole_bound(costs, std::vector<double>{1, 1, 1}, 1),
              pigeonhole_bound(costs, 3, 1).value, 1e-9);
  // The slowest bin must hold an item: 1 at a slowdown of 50.
  EXPECT_NEAR(slowdown_pigeonhole_bound(costs, std::vector<double>{1, 1, 50}, 1), 50, 1e-9);
}

TEST(SlowdownBounds, TilesFillBinsInWholeNumbers) {
  // Seven tiles of 0.25: five and two in 1.25, because four and two are one too few.
  EXPECT_NEAR(slowdown_granularity_bound({0.75, 0.5, 0.5}, std::vector<double>{1, 2}), 1.25, 1e-9);
  EXPECT_NEAR(slowdown_granularity_bound({0.75, 0.5, 0.5}, std::vector<double>{1, 1}), 1, 1e-9);
}

}  // namespace
}  // namespace isocost
