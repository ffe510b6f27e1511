#include "costmodel/internal/nnls.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace isocost {
namespace {

// Optimality: the gradient Ax − b is 0 where x > 0 and >= 0 where x = 0.
void expect_optimal(const TermMatrix& a, const TermVector& b, const TermVector& x) {
  for (std::size_t i = 0; i < kTermCount; ++i) {
    double gradient = -b[i];
    for (std::size_t j = 0; j < kTermCount; ++j) gradient += a[i][j] * x[j];
    EXPECT_GE(x[i], 0);
    EXPECT_GE(gradient, -1e-9);
    if (x[i] > 0) {
      EXPECT_NEAR(gradient, 0, 1e-9);
    }
  }
}

TEST(NonNegative, MeetsTheOptimalityConditions) {
  Random random(21);
  for (int round = 0; round < 2000; ++round) {
    TermMatrix rows{};
    TermMatrix a{};
    TermVector b{};
    for (auto& row : rows) {
      for (double& value : row) value = random.uniform() - 0.5;
    }
    for (std::size_t i = 0; i < kTermCount; ++i) {
      b[i] = random.uniform() - 0.5;
      for (std::size_t j = 0; j < kTermCount; ++j) {
        for (const auto& row : rows) a[i][j] += row[i] * row[j];
      }
      a[i][i] += 0.05;
    }
    expect_optimal(a, b, solve_non_negative(a, b));
  }
}

TEST(NonNegative, AllTermsAreZeroIfEachWouldBeNegative) {
  TermMatrix a{};
  for (std::size_t i = 0; i < kTermCount; ++i) a[i][i] = 1;
  EXPECT_EQ(solve_non_negative(a, {-1, -1, -1, -1}), TermVector{});
}

}  // namespace
}  // namespace isocost
