#include "loader/node/decoding/internal/decode_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/manual_executor.h"

namespace isocost {
namespace {

using Tasks = std::vector<DecodeTasks::TaskHandle>;
using Turn = DecodeTasks::Turn;

constexpr Turn kInOrder = Turn::kInOrder;

TEST(DecodeTasks, AWaitEndsWithTheLastOfItsTasks) {
  ManualExecutor executor(2);
  DecodeTasks tasks(executor);
  const Tasks both = {tasks.submit(kInOrder, [] {}), tasks.submit(kInOrder, [] {})};
  const auto other = tasks.submit(kInOrder, [] {});
  {
    const std::jthread waiter([&] { EXPECT_TRUE(tasks.wait(both, false)); });
    executor.run_first();
    executor.run_first();
  }
  EXPECT_TRUE(tasks.wait(both, false));  // at once
  EXPECT_EQ(executor.waiting(), 1U);
  executor.run_first();
}

TEST(DecodeTasks, AnIdleWorkerEndsAWaitThatAsksForIt) {
  ManualExecutor executor(2);
  DecodeTasks tasks(executor);
  const Tasks one = {tasks.submit(kInOrder, [] {})};
  EXPECT_FALSE(tasks.wait(one, true));
  tasks.submit(kInOrder, [] {});
  std::optional<bool> ended;
  {
    const std::jthread waiter([&] { ended = tasks.wait(one, true); });
    executor.run_last();
  }
  EXPECT_EQ(ended, false);
  executor.run_first();
  EXPECT_TRUE(tasks.wait(one, true));
}

TEST(DecodeTasks, ATaskThatATrainerNeedsRunsBeforeThoseForLater) {
  ManualExecutor executor(1);
  DecodeTasks tasks(executor);
  std::string order;
  tasks.submit(kInOrder, [&] { order += "a"; });
  tasks.submit(kInOrder, [&] { order += "b"; });
  executor.run_first();
  tasks.submit(Turn::kFirst, [&] { order += "1"; });
  tasks.submit(Turn::kFirst, [&] { order += "2"; });
  tasks.submit(kInOrder, [&] { order += "c"; });
  while (executor.waiting() > 0) executor.run_first();
  EXPECT_EQ(order, "a12bc");
}

TEST(DecodeTasks, TheDestructorWaitsForThePlaceOfATaskThatRanBefore) {
  const auto executor = make_executor(1);
  std::atomic<int> ran = 0;
  for (int i = 0; i < 1000; ++i) {
    DecodeTasks tasks(*executor);
    tasks.submit(kInOrder, [&ran] { ++ran; });
    tasks.submit(Turn::kFirst, [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 2000);
}

TEST(DecodeTasks, NoTasksAreNotWaitedFor) {
  ManualExecutor executor;
  DecodeTasks tasks(executor);
  tasks.submit(kInOrder, [] {});
  EXPECT_TRUE(tasks.wait({}, false));
  executor.run_first();
}

TEST(DecodeTasks, WhatATaskHoldsIsReleasedWhenItEnds) {
  const auto executor = make_executor(2);
  DecodeTasks tasks(*executor);
  for (int i = 0; i < 1000; ++i) {
    auto held = std::make_shared<int>(i);
    const std::weak_ptr<int> left = held;
    const Tasks one = {tasks.submit(kInOrder, [held = std::move(held)] {})};
    tasks.wait(one, false);
    ASSERT_TRUE(left.expired());
  }
}

TEST(DecodeTasks, TheDestructorWaits) {
  const auto executor = make_executor(2);
  std::atomic<int> ran = 0;
  {
    DecodeTasks tasks(*executor);
    for (int i = 0; i < 100; ++i) tasks.submit(kInOrder, [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace isocost
