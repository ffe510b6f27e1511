#include "balancer/partition/internal/local_search.h"

#include <gtest/gtest.h>

#include "balancer/partition/internal/exact.h"
#include "balancer/partition/internal/pair_split.h"
#include "base/random.h"

namespace isocost {
namespace {

// Returns the best makespan of all divisions of the items over two bins, which best_split must
// find.
double best_by_trying(const Partition& problem) {
  const std::size_t n = problem.items();
  double best = makespan_of(problem, {{}, {0}});
  for (std::uint32_t mask = 0; mask < 1U << n; ++mask) {
    Bins bins(2);
    for (std::uint32_t i = 0; i < n; ++i) bins[mask >> i & 1U].push_back(i);
    const double value = makespan_of(problem, bins);
    if (mask == 0 || value < best) best = value;
  }
  return best;
}

TEST(Split, IsTheBestOfAllDivisions) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const std::size_t dimensions = 1 + random.below(3);
    std::vector<double> costs(10 * dimensions);
    for (double& cost : costs) cost = random.uniform();
    const Partition problem{.dimensions = dimensions, .bins = 2, .costs = costs};
    Subsets first;
    Subsets second;
    Subsets::Scratch scratch;
    first.build(problem, {0, 1, 2, 3, 4}, 0, scratch);
    second.build(problem, {5, 6, 7, 8, 9}, 0, scratch);
    std::int64_t steps = 0;
    const auto split =
        best_split(problem, {first, second}, 0, {.first = 1e9, .second = 1e9}, steps);
    ASSERT_TRUE(split);
    EXPECT_NEAR(split->value, best_by_trying(problem), 1e-12);
  }
}

TEST(Improve, ExchangesOneItemAgainstTwo) {
  // From 18 and 14, no single move or swap reaches 17: a 9 must be exchanged for both 4s.
  const std::vector<double> costs = {9, 9, 6, 4, 4};
  const Partition problem{.bins = 2, .costs = costs};
  Bins bins = {{0, 1}, {2, 3, 4}};
  improve_bins(problem, {.target = 16, .work = 10}, bins);
  EXPECT_EQ(makespan_of(problem, bins), 17);
  EXPECT_TRUE(is_feasible(problem, bins));
}

TEST(Improve, WithoutWorkLeavesTheBinsAlone) {
  const std::vector<double> costs = {1, 1};
  const Partition problem{.bins = 2, .min_items = 0, .costs = costs};
  Bins bins = {{0, 1}, {}};
  improve_bins(problem, {}, bins);
  EXPECT_EQ(bins, (Bins{{0, 1}, {}}));
}

TEST(Improve, StopsWhereItNoLongerApproachesTheTarget) {
  Random random(11);
  std::vector<double> costs(4 * 64);
  for (double& cost : costs) cost = random.uniform();
  const Partition problem{.bins = 64, .costs = costs};
  Bins start(problem.bins);
  for (std::uint32_t i = 0; i < costs.size(); ++i) start[i % problem.bins].push_back(i);
  const auto improved = [&](std::int64_t stall_window) {
    Bins bins = start;
    improve_bins(problem, {.target = 0, .work = 20'000, .stall_window = stall_window}, bins);
    return makespan_of(problem, bins);
  };
  const double whole = improved(20'001);
  EXPECT_EQ(improved(ImproveLimits{}.stall_window), whole);
  EXPECT_GT(improved(1000), whole);
  EXPECT_LT(improved(1000), makespan_of(problem, start));
}

TEST(Exact, StopsByNodesAndReportsIt) {
  Random random(5);
  std::vector<double> costs(24);
  for (double& cost : costs) cost = 1 + random.uniform();
  const Partition problem{.bins = 5, .costs = costs};
  const ExactAnswer answer = solve_exactly(problem, {.nodes = 3});
  EXPECT_FALSE(answer.finished);
}

TEST(Exact, SaysThatNothingIsBelowTheOptimum) {
  const std::vector<double> costs = {3, 3, 2, 2, 2};
  const Partition problem{.bins = 2, .costs = costs};
  const ExactAnswer best = solve_exactly(problem, {.nodes = 1000});
  ASSERT_TRUE(best.bins);
  EXPECT_TRUE(best.finished);
  EXPECT_EQ(makespan_of(problem, *best.bins), 6);
  const ExactAnswer below = solve_exactly(problem, {.below = 6, .nodes = 1000});
  EXPECT_TRUE(below.finished);
  EXPECT_FALSE(below.bins);
}

}  // namespace
}  // namespace isocost
