#include "loader/node/internal/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StallWatchTest : public testing::Test {
 protected:
  StallWatch::Options options(milliseconds timeout) {
    return {timeout, [this] { return StallWatch::Activity{expected_, changes_}; },
            [] { return std::string("rank 3 has not acknowledged step 7"); }, log_.sink()};
  }
  static bool soon(const std::function<bool()>& event) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!event()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::atomic<bool> expected_ = true;
  std::atomic<std::uint64_t> changes_ = 0;
  LogLines log_;
};

TEST_F(StallWatchTest, TellsOnceWhatIsInTheWayAndOnceThatItGoesOn) {
  const StallWatch watch(options(milliseconds(1000)));  // the next one begins as much later
  ASSERT_TRUE(soon([&] { return watch.stall().seconds > 1.5; }));
  EXPECT_EQ(watch.stall().obstacle, "rank 3 has not acknowledged step 7");
  changes_ = 1;
  EXPECT_TRUE(soon([&] { return watch.stall().seconds == 0; }));
  EXPECT_TRUE(soon([&] { return log_.lines().size() == 2; }));
  EXPECT_THAT(log_.lines(),
              ElementsAre(HasSubstr("rank 3 has not acknowledged step 7"), HasSubstr("goes on")));
}

TEST_F(StallWatchTest, WhatGoesOnIsNoStall) {
  const StallWatch watch(options(milliseconds(1000)));
  for (int i = 0; i < 150; ++i) {
    ++changes_;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(StallWatchTest, NothingIsExpectedWhereNobodyTrains) {
  expected_ = false;
  const StallWatch watch(options(milliseconds(50)));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(watch.stall().seconds, 0);
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(StallWatchTest, AJobThatIsGivenUpIsNotSaidToGoOn) {
  const StallWatch watch(options(milliseconds(100)));
  ASSERT_TRUE(soon([&] { return watch.stall().seconds > 0; }));
  expected_ = false;
  EXPECT_TRUE(soon([&] { return watch.stall().seconds == 0; }));
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("rank 3 has not acknowledged step 7")));
}

TEST_F(StallWatchTest, ZeroWatchesNothing) {
  const StallWatch watch(options(milliseconds(0)));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(watch.stall().seconds, 0);
}

}  // namespace
}  // namespace isocost
