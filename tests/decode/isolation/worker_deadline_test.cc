#include "decode/isolation/internal/worker_deadline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>

namespace isocost {
namespace {

using Due = WorkerDeadline::Due;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kWait{200};

TEST(WorkerDeadline, AStopEndsAWorkerAtOnce) {
  std::stop_source stop;
  WorkerDeadline deadline(seconds(60), seconds(5));
  EXPECT_EQ(deadline.after_wait(seconds(5), kWait, false, stop.get_token()), Due::kNo);
  stop.request_stop();
  EXPECT_EQ(deadline.after_wait(seconds(5), kWait, true, stop.get_token()), Due::kStopped);
}

TEST(WorkerDeadline, AWorkerThatKeepsItsLimitHasFourSecondsToEndByItself) {
  WorkerDeadline deadline(seconds(60), seconds(100));
  EXPECT_EQ(deadline.after_wait(seconds(164), kWait, false, {}), Due::kNo);
  EXPECT_EQ(deadline.after_wait(seconds(164) + milliseconds(1), kWait, true, {}), Due::kOverTime)
      << "what others used before this sample does not count";
}

TEST(WorkerDeadline, AWorkerThatUsesNoTimeIsEndedAfterItsLimit) {
  WorkerDeadline deadline(seconds(2), seconds(0));
  for (milliseconds still = kWait; still <= seconds(2); still += kWait) {
    EXPECT_EQ(deadline.after_wait(seconds(0), kWait, false, {}), Due::kNo) << still.count();
  }
  EXPECT_EQ(deadline.after_wait(seconds(0), kWait, false, {}), Due::kStoodStill);
}

TEST(WorkerDeadline, ShortLimitsGiveASecond) {
  WorkerDeadline deadline(milliseconds(100), seconds(0));
  for (milliseconds still = kWait; still <= seconds(1); still += kWait) {
    EXPECT_EQ(deadline.after_wait(seconds(0), kWait, false, {}), Due::kNo) << still.count();
  }
  EXPECT_EQ(deadline.after_wait(seconds(0), kWait, false, {}), Due::kStoodStill);
}

TEST(WorkerDeadline, WorkAndAnswersEndStandingStill) {
  WorkerDeadline deadline(milliseconds(100), seconds(0));
  milliseconds used{0};
  for (int i = 0; i < 100; ++i) {
    if (i % 4 == 3) used += milliseconds(1);
    EXPECT_EQ(deadline.after_wait(used, kWait, false, {}), Due::kNo) << i;
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(deadline.after_wait(used, kWait, i % 4 == 3, {}), Due::kNo) << i;
  }
}

}  // namespace
}  // namespace isocost
