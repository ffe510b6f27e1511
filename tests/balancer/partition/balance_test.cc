#include "balancer/partition/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "tests/balancer/partition/brute_force.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DealInOrder, TakesTurnsBetweenRanksAndCutsRuns) {
  const BalanceProblem problem{.costs = {1, 2, 3, 4, 5, 6, 7}, .ranks = 2, .microbatches = 2};
  const auto dealt = deal_in_order(problem);
  ASSERT_TRUE(dealt);
  EXPECT_THAT(dealt->bins, ElementsAre(ElementsAre(0U, 2U), ElementsAre(4U, 6U), ElementsAre(1U),
                                       ElementsAre(3U, 5U)));
  EXPECT_EQ(dealt->makespan, 12);
}

TEST(Balance, RefusesMalformedProblemsNamingTheItem) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double huge = std::numeric_limits<double>::max();
  struct Case {
    BalanceProblem problem;
    const char* says;
  };
  const Case cases[] = {
      {{.dimensions = 0, .costs = {1}}, "dimensions"},
      {{.dimensions = 9, .costs = {1, 1, 1, 1, 1, 1, 1, 1, 1}}, "dimensions"},
      {{.dimensions = 2, .costs = {1, 2, 3}}, "multiple"},
      {{.costs = {1, 2}, .ranks = 3}, "2 items cannot fill 3"},
      {{.costs = {1}, .ranks = 0}, "at least 1"},
      {{.costs = {1}, .microbatches = 0}, "at least 1"},
      {{.costs = {1, -2}}, "item 1"},
      {{.costs = {1, nan}}, "item 1"},
      {{.costs = {huge, huge}}, "sum of the costs"},
      {{.costs = {1, 2}, .sizes = {1}, .resources = {{"bytes", 9}}}, "sizes holds 1 number for 2"},
      {{.costs = {1, 2}, .sizes = {1, 1}}, "sizes holds 2 numbers for 2 items and 0 resources"},
      {{.costs = {1, 2}, .sizes = {1, -1}, .resources = {{"bytes", 9}}}, "item 1: a negative"},
      {{.costs = {1}, .sizes = {0}, .resources = {{"tokens", -1}}}, "the cap on tokens"},
      {{.costs = {1}, .sizes = std::vector<std::int64_t>(5), .resources = {5, {"bytes", 1}}},
       "5 resources"},
      {{.costs = {1, 2}, .ranks = 2, .rank_slowdowns = {1}}, "rank_slowdowns holds 1 number for 2"},
      {{.costs = {1, 2}, .ranks = 2, .rank_slowdowns = {1, 0}}, "rank 1"},
      {{.costs = {1, 2}, .ranks = 2, .rank_slowdowns = {nan, 1}}, "rank 0"},
  };
  for (const Case& bad : cases) {
    const auto result = balance(bad.problem, {});
    ASSERT_FALSE(result) << bad.says;
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message(), HasSubstr(bad.says));
    EXPECT_FALSE(deal_in_order(bad.problem)) << bad.says;
    EXPECT_FALSE(lpt(bad.problem)) << bad.says;
  }
}

TEST(Lpt, PutsEachItemWhereTheLargestLoadStaysSmallest) {
  // In descending order: 7 | 5, then 4 to the 5, 4 to the 7, 3 to the 9, 1 to the 11.
  const auto plan = lpt({.costs = {7, 5, 4, 4, 3, 1}, .ranks = 2});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->bins, ElementsAre(ElementsAre(0U, 3U, 5U), ElementsAre(1U, 2U, 4U)));
  EXPECT_EQ(plan->makespan, 12);
  EXPECT_EQ(plan->lower_bound, 12);
  EXPECT_TRUE(plan->optimal);
}

TEST(Lpt, IsNotImprovedBySearch) {
  // LPT gives {3, 2, 2} and {3, 2}; {3, 3} and {2, 2, 2} would be better.
  const BalanceProblem problem{.costs = {3, 3, 2, 2, 2}, .ranks = 2};
  EXPECT_EQ(lpt(problem)->makespan, 7);
  EXPECT_EQ(balance(problem, {})->makespan, 6);
}

TEST(Lpt, KeepsTheCapAndNamesAnItemAboveIt) {
  // By cost the last item would join the bin of the second and third, which is full.
  BalanceProblem problem{
      .costs = {9, 4, 3, 1}, .sizes = {6, 6, 4, 4}, .resources = {{"bytes", 10}}, .ranks = 2};
  const auto plan = lpt(problem);
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->bins, ElementsAre(ElementsAre(0U, 3U), ElementsAre(1U, 2U)));
  problem.resources = {{"bytes", 5}};
  const auto refused = lpt(problem);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("item 0 has 6 bytes"));
}

TEST(Lpt, PacksBySizeIfNoBinHasRoom) {
  const BalanceProblem problem{.costs = {1, 9, 2, 8, 3, 7},
                               .sizes = {6, 6, 5, 5, 4, 4},
                               .resources = {{"bytes", 10}},
                               .ranks = 3};
  const auto plan = lpt(problem);
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_EQ(plan_fault(problem, *plan), "");
}

TEST(Lpt, SlowRanksGetLess) {
  const auto plan = lpt({.costs = {1, 1, 1, 1, 1, 1}, .ranks = 2, .rank_slowdowns = {1, 2}});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->bins[0], testing::SizeIs(4));
  EXPECT_THAT(plan->bins[1], testing::SizeIs(2));
  EXPECT_EQ(plan->makespan, 4);
}

TEST(Lpt, AssignsItemsToRanksFirstForTheSlowestRank) {
  const BalanceProblem problem{.dimensions = 2,
                               .costs = {4, 4, 5, 1, 3, 2, 1, 1},
                               .ranks = 2,
                               .microbatches = 2,
                               .objective = Objective::kSlowestRank};
  // Totals 8, 6, 5, 2: the ranks hold 8 + 2 and 6 + 5.
  const auto plan = lpt(problem);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan_fault(problem, *plan), "");
  EXPECT_EQ(plan->makespan, 11);
}

TEST(Balance, AnItemAboveTheCapIsNamedWithItsSize) {
  const auto result = balance(
      {.costs = {1, 1, 1}, .sizes = {10, 900, 10}, .resources = {{"bytes", 800}}, .ranks = 2}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(result.error().message(), HasSubstr("item 1 has 900 bytes"));
  EXPECT_THAT(result.error().message(), HasSubstr("800"));
}

TEST(Balance, PacksTightlyIfLptByCostFindsNoRoom) {
  // By cost, items of 6 bytes would share a bin with items of 5; only {6,4} {5,5} {6,4} fits.
  const BalanceProblem problem{.costs = {1, 9, 2, 8, 3, 7},
                               .sizes = {6, 6, 5, 5, 4, 4},
                               .resources = {{"bytes", 10}},
                               .ranks = 3};
  const auto result = balance(problem, {.exact_items = 0});
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(plan_fault(problem, *result), "");
}

TEST(Balance, RanksWhoseItemsDoNotPackFallBackToPackingMicrobatchesFirst) {
  Random random(9);
  int planned = 0;
  for (int round = 0; round < 300; ++round) {
    BalanceProblem problem{.resources = {{"bytes", 100}},
                           .ranks = 2,
                           .microbatches = 3,
                           .objective = Objective::kSlowestRank};
    // Pairs that fill a microbatch exactly.
    for (int pair = 0; pair < 6; ++pair) {
      const auto large = static_cast<std::int64_t>(51 + random.below(45));
      problem.sizes.insert(problem.sizes.end(), {large, 100 - large});
      problem.costs.push_back(random.uniform());
      problem.costs.push_back(random.uniform());
    }
    const auto result = balance(problem, {.exact_items = 0});
    if (!result) continue;
    EXPECT_EQ(plan_fault(problem, *result), "");
    ++planned;
  }
  EXPECT_GT(planned, 100);
}

TEST(Balance, SlowRanksGetLess) {
  BalanceProblem problem{.ranks = 4, .microbatches = 2, .rank_slowdowns = {1, 1, 1.2, 2}};
  Random random(21);
  for (int i = 0; i < 200; ++i) problem.costs.push_back(random.uniform());
  for (const auto which : {Objective::kSlowestRank, Objective::kLargestMicrobatch}) {
    problem.objective = which;
    const auto result = balance(problem, {});
    ASSERT_TRUE(result);
    EXPECT_EQ(plan_fault(problem, *result), "");
    EXPECT_LE(result->gap(), 1e-3);
    // A plan that ignores slowdowns gives the slowest rank twice the mean.
    BalanceProblem equal = problem;
    equal.rank_slowdowns.clear();
    EXPECT_GT(objective(problem, balance(equal, {})->bins), 1.5 * result->makespan);
  }
}

TEST(Balance, EqualSlowdownsOnlyScaleTheMakespan) {
  BalanceProblem problem{.ranks = 3, .microbatches = 2};
  Random random(22);
  for (int i = 0; i < 60; ++i) problem.costs.push_back(random.uniform());
  const auto plain = balance(problem, {});
  problem.rank_slowdowns = {1, 1, 1};
  EXPECT_EQ(balance(problem, {})->bins, plain->bins);
  problem.rank_slowdowns = {2, 2, 2};
  EXPECT_NEAR(balance(problem, {})->lower_bound, 2 * plain->lower_bound, 1e-9);
}

TEST(Balance, SpreadsDominantSamplesAndFillsTheOtherBins) {
  const BalanceProblem problem{.costs = {10, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, .ranks = 3};
  const auto result = balance(problem, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->makespan, 10);
  EXPECT_TRUE(result->optimal);
}

// Loads of documents: vision in whole tiles, text that correlates with them, bytes.
BalanceProblem documents(std::uint64_t seed) {
  Random random(seed);
  BalanceProblem problem{.dimensions = 3, .ranks = 8, .microbatches = 8};
  std::vector<double> sums(3, 0.0);
  for (int i = 0; i < 512; ++i) {
    const auto tiles = static_cast<double>(1 + random.below(7));
    const double tokens = 256 * tiles + 40 + 400 * random.uniform() * random.uniform();
    const double costs[] = {tiles, 13.05e9 * tokens + 200'704 * tokens * tokens,
                            tiles * 2'408'448 + 16 * tokens};
    for (int k = 0; k < 3; ++k) sums[k] += costs[k];
    problem.costs.insert(problem.costs.end(), costs, costs + 3);
  }
  for (std::size_t i = 0; i < problem.costs.size(); ++i) problem.costs[i] *= 64 / sums[i % 3];
  return problem;
}

TEST(Balance, DocumentsOverEightRanksOfEightAreWithinTwoPercentOfTheBound) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    BalanceProblem problem = documents(seed);
    const auto microbatches = balance(problem, {});
    ASSERT_TRUE(microbatches);
    EXPECT_LE(microbatches->gap(), 0.02);
    EXPECT_EQ(plan_fault(problem, *microbatches), "");
    problem.objective = Objective::kSlowestRank;
    const auto ranks = balance(problem, {});
    ASSERT_TRUE(ranks);
    EXPECT_LE(ranks->gap(), 0.001);
    EXPECT_EQ(plan_fault(problem, *ranks), "");
    // The second objective: the microbatches of a rank are balanced, too.
    problem.objective = Objective::kLargestMicrobatch;
    EXPECT_LE(objective(problem, ranks->bins), 1.1);
  }
}

// FNV-1a over the plan. Debug, release and sanitizer builds of g++ and clang must give equal plans.
std::uint64_t fingerprint(const BalanceResult& result) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3ULL; };
  for (const auto& bin : result.bins) {
    mix(bin.size());
    for (const std::uint32_t item : bin) mix(item);
  }
  return hash;
}

TEST(Balance, GivesTheSamePlanOnEveryBuild) {
  Random random(77);
  BalanceProblem problem{.dimensions = 3, .ranks = 4, .microbatches = 8};
  for (int i = 0; i < 256 * 3; ++i) problem.costs.push_back(random.uniform());
  EXPECT_EQ(fingerprint(*balance(problem, {})), 4501963154853816645ULL);
  problem.objective = Objective::kSlowestRank;
  EXPECT_EQ(fingerprint(*balance(problem, {})), 2085545039544680127ULL);
  problem.rank_slowdowns = {1, 1.1, 1.2, 0.9};
  for (std::size_t i = 0; i < problem.items(); ++i) {
    problem.sizes.push_back(static_cast<std::int64_t>(random.below(1000)));
  }
  problem.resources = {{"bytes", 4400}};
  EXPECT_EQ(fingerprint(*balance(problem, {})), 4939359439618840191ULL);
  EXPECT_EQ(fingerprint(*balance(documents(3), {})), 2824368242141602693ULL);
}

}  // namespace
}  // namespace isocost
