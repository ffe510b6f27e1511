#include "base/edit_distance.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

TEST(EditDistance, CountsBytesThatDiffer) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("sitting", "kitten"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("proportion", "proportions"), 1U);
}

}  // namespace
}  // namespace isocost
