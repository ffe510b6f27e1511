#include "cli/lab/replica_timeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

namespace isocost::cli {
namespace {

constexpr std::chrono::seconds kLong{60};  // no test waits for so long

EmulatedTime soon() { return std::chrono::steady_clock::now() + kLong; }

TEST(ReplicaTimeline, AWaitEndsWithThePassItIsFor) {
  ReplicaTimeline timeline;
  const EmulatedTime when = EmulatedTime(std::chrono::seconds(5));
  std::optional<EmulatedTime> seen;
  {
    const std::jthread waiting(
        [&] { seen = timeline.wait_for(1, 2, PassKind::kBackward, {}, soon()); });
    timeline.end(1, 2, PassKind::kForward, EmulatedTime(std::chrono::seconds(3)));
    timeline.end(1, 2, PassKind::kBackward, when);
  }
  EXPECT_EQ(seen, when);
}

TEST(ReplicaTimeline, AStopADeadlineAndANewStepEndNoPass) {
  ReplicaTimeline timeline;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(timeline.wait_for(0, 0, PassKind::kForward, stop.get_token(), soon()).has_value());
  const EmulatedTime now = std::chrono::steady_clock::now();
  EXPECT_FALSE(timeline.wait_for(0, 0, PassKind::kForward, {}, now).has_value());
  timeline.end(0, 0, PassKind::kForward, now);
  EXPECT_TRUE(timeline.wait_for(0, 0, PassKind::kForward, {}, now).has_value());
  timeline.clear();
  EXPECT_FALSE(timeline.wait_for(0, 0, PassKind::kForward, {}, now).has_value());
}

TEST(ReplicaTimeline, HoldsTheMicrobatchesOfTheStepInTheOrderOfTheirSlots) {
  ReplicaTimeline timeline;
  timeline.set(1, {{.llm_s = 10}, {}});
  timeline.set(0, {{.llm_s = 20}, {{3, 4, 5}}});
  ASSERT_EQ(timeline.microbatches().size(), 2U);
  EXPECT_EQ(timeline.microbatches()[0].load.llm_s, 20);
  EXPECT_EQ(timeline.microbatch(0).feeds[0].encoder_replica, 3U);
  timeline.clear();
  EXPECT_TRUE(timeline.microbatches().empty());
}

}  // namespace
}  // namespace isocost::cli
