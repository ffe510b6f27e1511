#include "base/statistics.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace isocost
