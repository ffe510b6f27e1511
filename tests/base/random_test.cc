#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace isocost {
namespace {

// The first outputs of SplitMix64 with seed 1234567, as published with its reference
// implementation.
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(Random, StaysBelowItsBound) {
  Random random(3);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) ++seen.at(random.below(7));
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
}

TEST(Random, ShufflesReproducibly) {
  std::vector<int> a(100);
  std::iota(a.begin(), a.end(), 0);
  std::vector<int> b = a;
  Random ra(5);
  Random rb(5);
  shuffle(std::span(a), ra);
  shuffle(std::span(b), rb);
  EXPECT_EQ(a, b);
  EXPECT_FALSE(std::is_sorted(a.begin(), a.end()));
}

}  // namespace
}  // namespace isocost
