#include "transport/zmq/internal/running_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace isocost {
namespace {

using std::chrono::milliseconds;

TEST(RunningClock, TimeInWhichItsThreadDidNotRunCountsAsOneGap) {
  RunningClock clock(milliseconds(200));
  const auto start = std::chrono::steady_clock::now() + milliseconds(1);
  const auto begin = clock.at(start);
  EXPECT_EQ(clock.at(start + milliseconds(100)) - begin, milliseconds(100));
  EXPECT_EQ(clock.at(start + milliseconds(8100)) - begin, milliseconds(300));
  EXPECT_EQ(clock.at(start + milliseconds(8200)) - begin, milliseconds(400));
}

TEST(RunningClock, DoesNotGoBack) {
  RunningClock clock(milliseconds(200));
  const auto start = std::chrono::steady_clock::now();
  const auto begin = clock.at(start);
  EXPECT_GE(clock.at(start - milliseconds(50)), begin);
}

}  // namespace
}  // namespace isocost
