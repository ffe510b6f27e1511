#include "balancer/partition/internal/bin_states.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace isocost {
namespace {

// Swaps items of random bins and compares the order with that of bins that never changed.
void expect_order_after(int swaps) {
  constexpr std::size_t kBins = 400;
  Random random(7);
  std::vector<double> costs(2 * kBins);
  for (double& cost : costs) cost = random.uniform();
  const Partition problem{.bins = kBins, .costs = costs};
  Bins bins(kBins);
  for (std::uint32_t i = 0; i < costs.size(); ++i) bins[i % kBins].push_back(i);
  BinStates states(problem, bins);
  for (int i = 0; i < swaps; ++i) {
    const std::size_t a = random.below(kBins);
    const std::size_t b = (a + 1 + random.below(kBins - 1)) % kBins;
    states.swap_items(a, 0, b, 1);
  }
  BinStates fresh(problem, bins);
  EXPECT_EQ(states.order(), fresh.order());
  EXPECT_EQ(states.makespan(), makespan_of(problem, bins));
}

TEST(BinStates, OrderFollowsChanges) {
  for (const int swaps : {1, 10, 1000}) expect_order_after(swaps);
}

}  // namespace
}  // namespace isocost
