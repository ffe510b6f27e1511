// Properties that must hold for random problems, including degenerate ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "balancer/partition/internal/bounds.h"
#include "balancer/partition/internal/construct.h"
#include "base/random.h"
#include "tests/balancer/partition/brute_force.h"
#ifdef ISOCOST_WITH_GLPK
#include "balancer/partition/internal/assignment_ilp.h"
#endif

namespace isocost {
namespace {

// Relative difference of one sum, added in two orders.
constexpr double kRounding = 1e-13;
// Bounds are rounded down by at most this.
constexpr double kBoundRounding = 4e-12;

enum class Kind : std::uint8_t {
  kUniform,
  kEqual,
  kZero,
  kLargestItem,
  kTiles,
  kSparse,
  kHeavyTail
};
constexpr int kKinds = 7;

double draw_cost(Kind kind, std::size_t item, Random& random) {
  switch (kind) {
    case Kind::kUniform:
      return random.uniform();
    case Kind::kEqual:
      return 3.7;
    case Kind::kZero:
      return 0;
    case Kind::kLargestItem:
      return item == 0 ? 100 : random.uniform();
    case Kind::kTiles:
      return 0.1 * static_cast<double>(1 + random.below(6));
    case Kind::kSparse:
      return random.below(3) == 0 ? random.uniform() : 0;
    case Kind::kHeavyTail:
      return 1 / (0.02 + random.uniform());
  }
  return 0;
}

// No slowdowns, equal ones, one straggler, or all different.
void add_slowdowns(BalanceProblem& problem, Random& random) {
  const std::uint64_t kind = random.below(5);
  if (kind < 2) return;
  for (std::size_t rank = 0; rank < problem.ranks; ++rank) {
    const double any = 0.5 + random.uniform();
    problem.rank_slowdowns.push_back(kind == 2 ? 1.25 : kind == 3 ? (rank == 0 ? 1.5 : 1) : any);
  }
}

BalanceProblem random_problem(std::size_t max_items, std::size_t max_bins, Random& random) {
  BalanceProblem problem;
  problem.dimensions = 1 + random.below(4);
  problem.ranks = 1 + random.below(max_bins);
  problem.microbatches = 1 + random.below(max_bins / problem.ranks);
  const std::size_t bins = problem.ranks * problem.microbatches;
  const bool one_per_bin = random.below(8) == 0;
  const std::size_t items =
      one_per_bin || max_items <= bins ? bins : bins + random.below(max_items - bins + 1);
  const auto kind = static_cast<Kind>(random.below(kKinds));
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      problem.costs.push_back(draw_cost(kind, i, random));
    }
  }
  problem.objective =
      random.below(2) == 0 ? Objective::kLargestMicrobatch : Objective::kSlowestRank;
  add_slowdowns(problem, random);
  return problem;
}

// Caps resources near the mean of a bin: loosely, tightly, or too tightly.
void add_caps(BalanceProblem& problem, std::size_t resources, Random& random) {
  std::vector<std::int64_t> largest(resources, 0);
  std::vector<std::int64_t> sums(resources, 0);
  for (std::size_t i = 0; i < problem.items() * resources; ++i) {
    problem.sizes.push_back(static_cast<std::int64_t>(random.below(1000)));
    largest[i % resources] = std::max(largest[i % resources], problem.sizes.back());
    sums[i % resources] += problem.sizes.back();
  }
  const auto bins = static_cast<std::int64_t>(problem.ranks * problem.microbatches);
  for (std::size_t r = 0; r < resources; ++r) {
    const std::int64_t spread = sums[r] / bins + static_cast<std::int64_t>(random.below(400));
    problem.resources.push_back(
        {"resource " + std::to_string(r), std::max<std::int64_t>({spread, largest[r], 1})});
  }
}

std::vector<double> bin_slowdowns(const BalanceProblem& problem) {
  std::vector<double> slowdowns;
  for (const double slowdown : problem.rank_slowdowns) {
    slowdowns.insert(slowdowns.end(), problem.microbatches, slowdown);
  }
  return slowdowns;
}

void expect_sound(const BalanceProblem& problem, const BalanceResult& result, int round) {
  EXPECT_EQ(plan_fault(problem, result), "") << "round " << round;
  EXPECT_GE(result.makespan, result.lower_bound * (1 - 1e-12)) << "round " << round;
  EXPECT_GE(result.lower_bound, lower_bound(problem) * (1 - 1e-12)) << "round " << round;
}

TEST(Properties, PlansAreSoundRepeatableAndNeverWorseThanDealingOrLpt) {
  Random random(11);
  const BalanceOptions options{.improvement_rounds = 200, .exact_items = 0};
  for (int round = 0; round < 10000; ++round) {
    const BalanceProblem problem = random_problem(60, 12, random);
    const auto result = balance(problem, options);
    ASSERT_TRUE(result) << result.error().to_string();
    expect_sound(problem, *result, round);
    const auto again = balance(problem, options);
    EXPECT_EQ(again->bins, result->bins);
    EXPECT_LE(result->makespan, deal_in_order(problem)->makespan) << "round " << round;
    if (problem.objective == Objective::kLargestMicrobatch) {
      EXPECT_LE(result->makespan, lpt(problem)->makespan) << "round " << round;
    }
  }
}

TEST(Properties, CapsAreKeptOrRefused) {
  Random random(12);
  int planned = 0;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    BalanceProblem problem = random_problem(40, 10, random);
    add_caps(problem, 1 + static_cast<std::size_t>(round) % 3, random);
    const auto result = balance(problem, {.exact_items = 0});
    if (result) {
      expect_sound(problem, *result, round);
      ++planned;
    } else {
      EXPECT_EQ(result.error().code(), ErrorCode::kResourceExhausted);
      ++refused;
    }
  }
  EXPECT_GT(planned, 1000);
  EXPECT_GT(refused, 10);
}

// Packings that fill every bin to `fill` of the cap; costs are independent of bytes.
TEST(Properties, TightPackingsThatExistAreFound) {
  Random random(15);
  for (int round = 0; round < 200; ++round) {
    BalanceProblem problem{
        .dimensions = 2, .resources = {{"bytes", 100'000}}, .ranks = 8, .microbatches = 4};
    for (std::size_t bin = 0; bin < 32; ++bin) {
      std::int64_t left = 98'500;
      for (const double share : {0.4, 0.3, 0.5, 1.0}) {
        const auto part = share == 1.0
                              ? left
                              : static_cast<std::int64_t>(static_cast<double>(left) * share *
                                                          (0.5 + random.uniform()));
        problem.sizes.push_back(part);
        problem.costs.insert(problem.costs.end(), {random.uniform(), random.uniform()});
        left -= part;
      }
    }
    std::vector<std::int64_t> shuffled = problem.sizes;
    shuffle(std::span(shuffled), random);
    problem.sizes = shuffled;
    problem.objective = round % 2 == 0 ? Objective::kLargestMicrobatch : Objective::kSlowestRank;
    const auto result = balance(problem, {.improvement_rounds = 50});
    ASSERT_TRUE(result) << "round " << round << ": " << result.error().to_string();
    expect_sound(problem, *result, round);
  }
}

// A bound on one resource at a time must hold for plans that keep all caps.
TEST(Properties, CapsOnSeveralResourcesAreBoundedSoundly) {
  Random random(23);
  int raised = 0;
  for (int round = 0; round < 2000; ++round) {
    BalanceProblem problem = random_problem(8, 3, random);
    add_caps(problem, 2 + random.below(2), random);
    const auto best = brute_force(problem);
    const double bound = lower_bound(problem);
    if (best) {
      EXPECT_LE(bound, *best * (1 + kRounding)) << "round " << round;
    }
    problem.sizes.clear();
    problem.resources.clear();
    if (bound > lower_bound(problem) * (1 + kBoundRounding)) ++raised;
  }
  EXPECT_GT(raised, 50);
}

TEST(Properties, AnItemAboveOneOfSeveralCapsIsRefusedWithTheResource) {
  const auto result = balance({.costs = {1, 1, 1},
                               .sizes = {10, 1, 10, 7, 10, 1},
                               .resources = {{"tokens", 20}, {"patches", 5}},
                               .ranks = 2},
                              {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(result.error().message().find("item 1 has 7 patches, a microbatch may hold 5"),
            std::string::npos)
      << result.error().message();
}

TEST(Properties, ProblemsWithoutAPackingAreRefusedNamingAnItem) {
  // Five items of six bytes: no two fit into ten, and there are four bins.
  const auto result = balance({.costs = {1, 1, 1, 1, 1, 1},
                               .sizes = {6, 1, 6, 6, 6, 7},
                               .resources = {{"bytes", 10}},
                               .ranks = 4},
                              {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(result.error().message().find("item 5"), std::string::npos);
  // The scarcer of two resources is named.
  const auto two = balance({.costs = {1, 1, 1},
                            .sizes = {1, 4, 1, 4, 1, 4},
                            .resources = {{"tokens", 9}, {"patches", 6}},
                            .ranks = 2},
                           {});
  ASSERT_FALSE(two);
  EXPECT_NE(two.error().message().find("12 patches into 2 microbatches"), std::string::npos)
      << two.error().message();
}

// The order of the items may decide ties and which of several good plans is found, but not the
// bound and not what is proved.
TEST(Properties, AnotherOrderOfTheItemsProvesTheSame) {
  Random random(16);
  for (int round = 0; round < 500; ++round) {
    const BalanceProblem problem = random_problem(9, 3, random);
    std::vector<std::size_t> order(problem.items());
    std::iota(order.begin(), order.end(), std::size_t{0});
    shuffle(std::span(order), random);
    BalanceProblem shuffled = problem;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t k = 0; k < problem.dimensions; ++k) {
        shuffled.costs[i * problem.dimensions + k] =
            problem.costs[order[i] * problem.dimensions + k];
      }
    }
    const double bound = lower_bound(problem);
    EXPECT_NEAR(lower_bound(shuffled), bound, 1e-12 * bound) << "round " << round;
    const auto one = balance(problem, {});
    const auto other = balance(shuffled, {});
    ASSERT_TRUE(one->optimal && other->optimal) << "round " << round;
    EXPECT_NEAR(one->makespan, other->makespan, kRounding * one->makespan) << "round " << round;
  }
}

TEST(Properties, SmallProblemsAreSolvedToTheOptimum) {
  Random random(13);
  for (int round = 0; round < 3000; ++round) {
    const BalanceProblem problem = random_problem(8, 3, random);
    const auto result = balance(problem, {});
    ASSERT_TRUE(result) << result.error().to_string();
    expect_sound(problem, *result, round);
    EXPECT_TRUE(result->optimal) << "round " << round;
    EXPECT_NEAR(result->makespan, brute_force(problem).value_or(0), kRounding * result->makespan)
        << "round " << round;
  }
}

TEST(Properties, SmallCappedProblemsAreSolvedExactlyWhenTheyCanBe) {
  Random random(14);
  int impossible = 0;
  for (int round = 0; round < 2000; ++round) {
    BalanceProblem problem = random_problem(8, 3, random);
    add_caps(problem, 1 + static_cast<std::size_t>(round) % 3, random);
    const auto best = brute_force(problem);
    const auto result = balance(problem, {});
    ASSERT_EQ(result.has_value(), best.has_value()) << "round " << round;
    if (!best) {
      ++impossible;
      continue;
    }
    expect_sound(problem, *result, round);
    EXPECT_NEAR(result->makespan, *best, kRounding * *best) << "round " << round;
  }
  EXPECT_GT(impossible, 0);
}

// Log-uniform from one to 10^decades.
double of_any_size(double decades, Random& random) {
  return std::pow(10, decades * random.uniform());
}

// Bytes over twelve decades with a cap that some subset fills exactly, and slowdowns over four
// decades: the differences are smaller than the tolerances of a floating-point solver.
BalanceProblem wide_range_problem(Random& random) {
  BalanceProblem problem = random_problem(8, 3, random);
  problem.rank_slowdowns.clear();
  if (random.below(4) != 0) {
    for (std::size_t rank = 0; rank < problem.ranks; ++rank) {
      problem.rank_slowdowns.push_back(0.01 * of_any_size(4, random));
    }
  }
  std::int64_t subset = 0;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < problem.items(); ++i) {
    problem.sizes.push_back(static_cast<std::int64_t>(of_any_size(12, random)));
    largest = std::max(largest, problem.sizes.back());
    if (random.below(2) == 0) subset += problem.sizes.back();
  }
  const auto one_less = static_cast<std::int64_t>(random.below(2));
  problem.resources = {{"bytes", std::max(largest, subset - one_less)}};
  if (random.below(3) == 0) {
    for (double& cost : problem.costs) cost *= 1e-6 * of_any_size(12, random);
  }
  return problem;
}

void expect_optimal(const BalanceProblem& problem, const Result<BalanceResult>& result, int round) {
  const auto best = brute_force(problem);
  ASSERT_EQ(result.has_value(), best.has_value()) << "round " << round;
  if (!best) return;
  expect_sound(problem, *result, round);
  EXPECT_TRUE(result->optimal) << "round " << round;
  EXPECT_EQ(result->gap(), 0) << "round " << round;
  EXPECT_NEAR(result->makespan, *best, kRounding * *best) << "round " << round;
}

TEST(Properties, BytesAndSlowdownsOfAnySizeAreSolvedExactly) {
  Random random(17);
  for (int round = 0; round < 3000; ++round) {
    const BalanceProblem problem = wide_range_problem(random);
    expect_optimal(problem, balance(problem, {}), round);
  }
}

Sizes caps_of(const BalanceProblem& problem) {
  Sizes caps{};
  for (std::size_t r = 0; r < problem.resources.size(); ++r) caps[r] = problem.resources[r].cap;
  return caps;
}

// Returns a view: `problem` and `slowdowns` must outlive it.
Partition partition_of(const BalanceProblem& problem, std::span<const double> slowdowns) {
  return {.dimensions = problem.dimensions,
          .bins = problem.ranks * problem.microbatches,
          .costs = problem.costs,
          .resources = problem.resources.size(),
          .sizes = problem.sizes,
          .caps = caps_of(problem),
          .slowdowns = slowdowns};
}

#ifdef ISOCOST_WITH_GLPK
// In balance(), enumeration solves all small problems before the ILP; here the ILP solves them.
TEST(Properties, TheIlpAloneIsExactToo) {
  Random random(20);
  int proved = 0;
  for (int round = 0; round < 1000; ++round) {
    BalanceProblem problem = wide_range_problem(random);
    problem.objective = Objective::kLargestMicrobatch;
    const std::vector<double> slowdowns = bin_slowdowns(problem);
    const Partition partition = partition_of(problem, slowdowns);
    const auto best = brute_force(problem);
    const ExactAnswer answer = solve_assignment_ilp(partition, {.nodes = 20'000});
    if (answer.bins) {
      EXPECT_TRUE(is_feasible(partition, *answer.bins)) << "round " << round;
    }
    if (!answer.finished) continue;
    ++proved;
    ASSERT_EQ(answer.bins.has_value(), best.has_value()) << "round " << round;
    if (best && answer.bins) {
      EXPECT_NEAR(makespan_of(partition, *answer.bins), *best, kRounding * *best) << round;
    }
  }
  EXPECT_GT(proved, 950);
}
#endif

// A few sizes, several of which exactly fill a bin, and some that do not fit beside them.
BalanceProblem crowded_problem(Random& random) {
  BalanceProblem problem{.dimensions = 1 + random.below(2), .ranks = 2 + random.below(2)};
  const double dominant = 1 + random.uniform();
  const double small = dominant * (0.01 + 0.3 * random.uniform());
  const std::size_t items = problem.ranks + 1 + random.below(8 - problem.ranks);
  for (std::size_t i = 0; i < items * problem.dimensions; ++i) {
    const std::uint64_t kind = random.below(6);
    problem.costs.push_back(kind < 3 ? dominant : kind < 5 ? small : small * random.uniform());
  }
  return problem;
}

TEST(Properties, CrowdsAreBoundedSoundly) {
  Random random(21);
  int stronger = 0;
  for (int round = 0; round < 3000; ++round) {
    const BalanceProblem problem = crowded_problem(random);
    const Partition partition{
        .dimensions = problem.dimensions, .bins = problem.ranks, .costs = problem.costs};
    const auto best = brute_force(problem);
    ASSERT_TRUE(best.has_value());
    const double bound = crowd_bound(partition);
    EXPECT_LE(bound, *best) << "round " << round;
    if (bound > partition_bound(partition).value * (1 + kBoundRounding)) ++stronger;
  }
  EXPECT_GT(stronger, 20);
}

TEST(Properties, CapsAndSlowdownsTogetherAreBoundedSoundly) {
  Random random(22);
  int stronger = 0;
  for (int round = 0; round < 3000; ++round) {
    BalanceProblem problem = wide_range_problem(random);
    problem.objective = Objective::kLargestMicrobatch;
    const std::vector<double> slowdowns = bin_slowdowns(problem);
    const Partition partition = partition_of(problem, slowdowns);
    const auto best = brute_force(problem);
    if (!best) continue;
    const double bound = capped_slowdown_bound(partition);
    EXPECT_LE(bound, *best) << "round " << round;
    if (bound > partition_bound(partition).value * (1 + kBoundRounding)) ++stronger;
  }
  EXPECT_GT(stronger, 20);
}

// A search with a small budget may miss the optimum, but what it proves must hold.
TEST(Properties, NothingFalseIsProvedWithAnyBudget) {
  Random random(18);
  for (int round = 0; round < 2000; ++round) {
    const BalanceProblem problem = wide_range_problem(random);
    const auto best = brute_force(problem);
    const auto nodes = static_cast<std::int64_t>(random.below(3));
    const auto result = balance(problem, {.improvement_rounds = 1, .exact_nodes = nodes});
    if (!result) continue;
    if (!best) {
      FAIL() << "a plan where there is none: round " << round;
    }
    expect_sound(problem, *result, round);
    EXPECT_LE(result->lower_bound, *best * (1 + kBoundRounding)) << "round " << round;
    if (result->optimal) {
      EXPECT_NEAR(result->makespan, *best, kBoundRounding * *best) << round;
    }
  }
}

// Assigning the largest loads to the fastest bins never improves a plan.
TEST(Properties, LargestLoadsLieInTheFastestBins) {
  Random random(19);
  for (int round = 0; round < 300; ++round) {
    BalanceProblem problem{.ranks = 2 + random.below(5)};
    for (int i = 0; i < 24; ++i) {
      problem.costs.push_back(random.uniform());
      problem.sizes.push_back(static_cast<std::int64_t>(of_any_size(9, random)));
    }
    problem.resources = {{"bytes", *std::max_element(problem.sizes.begin(), problem.sizes.end())}};
    for (std::size_t r = 0; r < problem.ranks; ++r) {
      problem.rank_slowdowns.push_back(static_cast<double>(1 + random.below(3)));
    }
    const auto result = balance(problem, {.improvement_rounds = 20});
    if (!result) continue;
    std::vector<double> loads;
    for (const auto& bin : result->bins) {
      double load = 0;
      for (const std::uint32_t item : bin) load += problem.costs[item];
      loads.push_back(load);
    }
    std::sort(loads.rbegin(), loads.rend());
    std::sort(problem.rank_slowdowns.begin(), problem.rank_slowdowns.end());
    double matched = 0;
    for (std::size_t r = 0; r < loads.size(); ++r) {
      matched = std::max(matched, problem.rank_slowdowns[r] * loads[r]);
    }
    EXPECT_LE(result->makespan, matched * (1 + 1e-11)) << "round " << round;
  }
}

}  // namespace
}  // namespace isocost
