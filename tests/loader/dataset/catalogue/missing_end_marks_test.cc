#include "loader/dataset/catalogue/internal/missing_end_marks.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

TEST(MissingEndMarks, AreDamageOfTwoShardsAndOneInAHundred) {
  EXPECT_FALSE(are_cut_off(0, 9));
  EXPECT_FALSE(are_cut_off(1, 1));
  EXPECT_FALSE(are_cut_off(1, 9));
  EXPECT_TRUE(are_cut_off(2, 2));
  EXPECT_TRUE(are_cut_off(9, 9));
  EXPECT_TRUE(are_cut_off(2, 200));
  EXPECT_FALSE(are_cut_off(2, 201));
  EXPECT_FALSE(are_cut_off(99, 10'000));
  EXPECT_TRUE(are_cut_off(100, 10'000));
}

}  // namespace
}  // namespace isocost
