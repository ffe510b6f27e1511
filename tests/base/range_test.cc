#include "base/range.h"

#include <gtest/gtest.h>

#include <chrono>

namespace isocost {
namespace {

using std::chrono::milliseconds;

TEST(Range, BothEndsAreAllowed) {
  EXPECT_TRUE(check_range("ranks", 1, 1, 8).has_value());
  EXPECT_TRUE(check_range("ranks", 8, 1, 8).has_value());
  EXPECT_EQ(check_range("ranks", 9, 1, 8).error().message(), "ranks = 9: allowed are 1 to 8");
}

TEST(Range, TimesAreToldInSeconds) {
  EXPECT_TRUE(check_range("wait", milliseconds(250), milliseconds(250), milliseconds(500)));
  EXPECT_EQ(check_range("wait", milliseconds(501), milliseconds(250), milliseconds(500))
                .error()
                .message(),
            "wait = 0.501 s: allowed are 0.25 s to 0.5 s");
}

TEST(Range, SecondsAreTextWithoutExponent) {
  EXPECT_EQ(in_seconds(milliseconds(30'000)), "30 s");
  EXPECT_EQ(in_seconds(milliseconds(999'999'999)), "999999.999 s");
  EXPECT_EQ(in_seconds(milliseconds(-1)), "-0.001 s");
}

}  // namespace
}  // namespace isocost
