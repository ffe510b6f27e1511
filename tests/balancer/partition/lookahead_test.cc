#include "balancer/partition/lookahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "balancer/partition/first_fit.h"
#include "base/random.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double makespans(const BalanceProblem& window, const Composition& composition) {
  double sum = 0;
  for (const auto& batch : composition.batches) {
    BalanceProblem problem = window;
    problem.costs.clear();
    for (const std::uint32_t item : batch) {
      for (std::size_t k = 0; k < window.dimensions; ++k) {
        problem.costs.push_back(window.costs[item * window.dimensions + k]);
      }
    }
    sum += balance(problem, {})->makespan;
  }
  return sum;
}

Composition as_drawn(const std::vector<std::size_t>& sizes) {
  Composition drawn;
  std::uint32_t next = 0;
  for (const std::size_t size : sizes) {
    auto& batch = drawn.batches.emplace_back(size);
    std::iota(batch.begin(), batch.end(), next);
    next += static_cast<std::uint32_t>(size);
  }
  return drawn;
}

TEST(Lookahead, AWindowOfOneStaysAsDrawn) {
  const auto composed = compose_batches({.costs = {9, 1, 1, 1}, .ranks = 2}, {4});
  ASSERT_TRUE(composed);
  EXPECT_THAT(composed->batches, ElementsAre(ElementsAre(0U, 1U, 2U, 3U)));
  EXPECT_EQ(composed->moved, 0U);
}

TEST(Lookahead, NothingMovesWithoutAGain) {
  const auto composed = compose_batches({.costs = {2, 2, 2, 2, 2, 2, 2, 2}, .ranks = 2}, {4, 4});
  ASSERT_TRUE(composed);
  EXPECT_EQ(composed->moved, 0U);
  EXPECT_EQ(composed->batches, as_drawn({4, 4}).batches);
}

TEST(Lookahead, DominantSamplesOfTwoStepsAreGatheredInOne) {
  // Each batch takes 10 for its dominant sample; together the dominant samples take 10 once, and
  // the rest 2.
  const BalanceProblem window{.costs = {10, 1, 1, 1, 10, 1, 1, 1}, .ranks = 2};
  const auto composed = compose_batches(window, {4, 4});
  ASSERT_TRUE(composed);
  EXPECT_NEAR(composed->seconds_before, 20, 1e-9);
  EXPECT_NEAR(composed->seconds_after, 13, 1e-9);
  EXPECT_NEAR(makespans(window, *composed), 13, 1e-9);
}

TEST(Lookahead, UnequalBatchesAreEvenedOut) {
  const BalanceProblem window{.costs = {4, 4, 4, 4, 1, 1, 1, 1}, .ranks = 2};
  const auto composed = compose_batches(window, {4, 4});
  ASSERT_TRUE(composed);
  EXPECT_LE(composed->seconds_after, composed->seconds_before);
}

TEST(Lookahead, RandomWindowsKeepSizesLoseNothingAndAreRepeatable) {
  Random random(31);
  double before = 0;
  double after = 0;
  for (int round = 0; round < 300; ++round) {
    BalanceProblem window{.dimensions = 1 + random.below(3),
                          .ranks = 1 + random.below(4),
                          .microbatches = 1 + random.below(3)};
    const std::size_t bins = window.ranks * window.microbatches;
    std::vector<std::size_t> sizes(1 + random.below(5));
    std::size_t items = 0;
    for (std::size_t& size : sizes) items += size = bins * (1 + random.below(6));
    for (std::size_t i = 0; i < items * window.dimensions; ++i) {
      window.costs.push_back(random.below(20) == 0 ? 30 * random.uniform() : random.uniform());
    }
    const auto composed = compose_batches(window, sizes);
    ASSERT_TRUE(composed) << composed.error().to_string();
    ASSERT_EQ(composed->batches.size(), sizes.size());
    std::vector<std::uint32_t> all;
    std::size_t moved = 0;
    std::size_t first = 0;
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      EXPECT_EQ(composed->batches[b].size(), sizes[b]);
      EXPECT_TRUE(std::is_sorted(composed->batches[b].begin(), composed->batches[b].end()));
      for (const std::uint32_t item : composed->batches[b]) {
        moved += item < first || item >= first + sizes[b] ? 1 : 0;
        all.push_back(item);
      }
      first += sizes[b];
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
    EXPECT_EQ(all.size(), items);
    EXPECT_EQ(composed->moved, moved);
    EXPECT_LE(composed->seconds_after, composed->seconds_before);
    EXPECT_EQ(compose_batches(window, sizes)->batches, composed->batches);
    before += makespans(window, as_drawn(sizes));
    after += makespans(window, *composed);
  }
  // The balanced steps themselves are shorter by at least a tenth, not only their bounds.
  EXPECT_LT(after, 0.9 * before);
}

TEST(Lookahead, TheCapStaysAsEasyToMeetAsDrawn) {
  // Together the dominant samples hold 20 of the 22 bytes that two bins may; as drawn no batch
  // holds over 14.
  BalanceProblem window{.costs = {10, 1, 1, 1, 10, 1, 1, 1},
                        .sizes = {8, 2, 2, 2, 8, 2, 2, 2},
                        .resources = {{"bytes", 11}},
                        .ranks = 2};
  EXPECT_EQ(compose_batches(window, {4, 4})->moved, 0U);
  window.resources = {{"bytes", 13}};  // 20 are less than four fifths of 26
  EXPECT_GT(compose_batches(window, {4, 4})->moved, 0U);
}

// Gathering the two dominant items would leave three of size 51 to a batch of two bins of 100,
// which is less than 80 % of them, and cannot be packed.
TEST(Lookahead, NoBatchIsComposedThatItsBinsCannotHold) {
  BalanceProblem window{.costs = {9, 1, 1, 1, 9, 1, 1, 1}, .ranks = 2};
  const std::vector<std::int64_t> sizes = {1, 51, 51, 1, 1, 51, 1, 1};
  const auto gathered = compose_batches(window, {4, 4}).value();
  EXPECT_THAT(gathered.batches[1], ElementsAre(1U, 2U, 3U, 5U));
  window.resources = {{"tokens", 100}};
  window.sizes = sizes;
  EXPECT_EQ(bins_by_first_fit(window, gathered.batches[1]), 3U);
  EXPECT_EQ(compose_batches(window, {4, 4})->batches, as_drawn({4, 4}).batches);
}

TEST(FirstFit, NeedsNoFewerBinsThanThereMustBeAndCountsEveryResource) {
  BalanceProblem problem{.costs = std::vector<double>(5, 1.0)};
  problem.resources = {{"tokens", 10}, {"bytes", 100}};
  problem.sizes = {6, 1, 4, 1, 5, 1, 5, 1, 1, 100};
  const std::vector<std::uint32_t> items = {0, 1, 2, 3, 4};
  EXPECT_EQ(bins_by_first_fit(problem, items),
            3U);  // 6 + 4, 5 + 5, and the one that fills the bytes
  EXPECT_EQ(bins_by_first_fit(problem, std::span(items).first(4)), 2U);
  EXPECT_EQ(bins_by_first_fit(problem, {}), 0U);
  EXPECT_EQ(bins_by_first_fit({.costs = {1, 2}}, std::span(items).first(2)), 1U);
}

TEST(Lookahead, RandomWindowsUnderCapsStayDivisible) {
  Random random(41);
  std::size_t moved = 0;
  for (int round = 0; round < 200; ++round) {
    BalanceProblem window{.ranks = 2, .microbatches = 2};
    const std::vector<std::size_t> sizes(3, 8);
    for (std::size_t i = 0; i < 24; ++i) {
      window.costs.push_back(1 + static_cast<double>(random.below(random.below(4) == 0 ? 60 : 6)));
      window.sizes.push_back(static_cast<std::int64_t>(1 + random.below(60)));
    }
    window.resources = {{"tokens", 100}};
    const Composition composed = compose_batches(window, sizes).value();
    moved += composed.moved > 0 ? 1 : 0;
    if (composed.moved == 0) continue;
    for (const auto& batch : composed.batches) {
      EXPECT_LE(bins_by_first_fit(window, batch), 4U) << round;
    }
  }
  EXPECT_GT(moved, 20U);
  EXPECT_LT(moved, 200U);
}

TEST(Lookahead, RefusesSizesThatDoNotAddUp) {
  const BalanceProblem window{.costs = {1, 1, 1, 1}, .ranks = 2};
  for (const auto& [sizes, says] : std::vector<std::pair<std::vector<std::size_t>, const char*>>{
           {{2, 1}, "batch 1 of 1 item"}, {{2}, "add up to 2"}, {{}, "add up to 0"}}) {
    const auto composed = compose_batches(window, sizes);
    ASSERT_FALSE(composed);
    EXPECT_EQ(composed.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(composed.error().message(), HasSubstr(says));
  }
}

}  // namespace
}  // namespace isocost
