#include "base/statistics.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace isocost {
namespace {

TEST(Statistics, MeanOfNumbers) {
  EXPECT_EQ(mean(std::vector<double>{1, 2, 6}), 3);
  EXPECT_EQ(mean({}), 0);
}

TEST(Statistics, MedianIsTheMiddleOrTheMeanOfTheTwoMiddleValues) {
  std::vector<double> odd = {9, 1, 5};
  EXPECT_EQ(median(odd), 5);
  std::vector<double> even = {9, 1, 2, 5};
  EXPECT_EQ(median(even), 3.5);
  EXPECT_EQ(median({}), 0);
}

TEST(Statistics, MiddleValuesAreEqualForAnOddCount) {
  std::vector<double> odd = {9, 1, 5};
  EXPECT_EQ(middle_values(odd).lower, 5);
  EXPECT_EQ(middle_values(odd).upper, 5);
  std::vector<double> even = {9, 1, 2, 5};
  EXPECT_EQ(middle_values(even).lower, 2);
  EXPECT_EQ(middle_values(even).upper, 5);
}

TEST(Statistics, DistributionOfAFewNumbers) {
  const Distribution d = distribution_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(d.mean, 2.5);
  EXPECT_DOUBLE_EQ(d.deviation * d.deviation, 1.25);
  EXPECT_EQ(d.least, 1);
  EXPECT_EQ(d.p50, 2);
  EXPECT_EQ(d.p90, 4);
  EXPECT_EQ(d.most, 4);
  EXPECT_EQ(distribution_of({}).most, 0);
  EXPECT_EQ(distribution_of({7}).p99, 7);
}

TEST(Statistics, Correlations) {
  const std::vector<double> rising = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(correlation(rising, std::vector<double>{2, 4, 6, 8}).value(), 1);
  EXPECT_DOUBLE_EQ(correlation(rising, std::vector<double>{4, 3, 2, 1}).value(), -1);
  EXPECT_EQ(correlation(rising, std::vector<double>{5, 5, 5, 5}), std::nullopt);
  EXPECT_EQ(correlation({}, {}), std::nullopt);
  // Ranks see only order; ties share a rank: 1, 2.5, 2.5, 4 against 1..4 is 4.5 / sqrt(4.5 · 5).
  EXPECT_DOUBLE_EQ(rank_correlation(rising, std::vector<double>{1, 10, 100, 1e6}).value(), 1);
  EXPECT_NEAR(rank_correlation(rising, std::vector<double>{1, 7, 7, 9}).value(), 0.948683, 1e-6);
}

TEST(Statistics, ShareOfTheLargest) {
  EXPECT_DOUBLE_EQ(share_of_largest({1, 1, 6, 2}, 0.25), 0.6);
  EXPECT_DOUBLE_EQ(share_of_largest({1, 1, 6, 2}, 0.001), 0.6);  // at least one
  EXPECT_DOUBLE_EQ(share_of_largest({1, 1, 6, 2}, 1), 1);
  EXPECT_EQ(share_of_largest({0, 0}, 0.5), 0);
}

}  // namespace
}  // namespace isocost
