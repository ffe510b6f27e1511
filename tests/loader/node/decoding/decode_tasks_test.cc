#include "loader/node/decoding/internal/decode_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/manual_executor.h"

namespace isocost {
namespace {

using Tasks = std::vector<DecodeTasks::TaskHandle>;

TEST(DecodeTasks, AWaitEndsWithTheLastOfItsTasks) {
  ManualExecutor executor(2);
  DecodeTasks tasks(executor);
  const Tasks both = {tasks.submit([] {}), tasks.submit([] {})};
  const auto other = tasks.submit([] {});
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
  const Tasks one = {tasks.submit([] {})};
  EXPECT_FALSE(tasks.wait(one, true));
  tasks.submit([] {});
  std::optional<bool> ended;
  {
    const std::jthread waiter([&] { ended = tasks.wait(one, true); });
    executor.run_last();
  }
  EXPECT_EQ(ended, false);
  executor.run_first();
  EXPECT_TRUE(tasks.wait(one, true));
}

TEST(DecodeTasks, NoTasksAreNotWaitedFor) {
  ManualExecutor executor;
  DecodeTasks tasks(executor);
  tasks.submit([] {});
  EXPECT_TRUE(tasks.wait({}, false));
  executor.run_first();
}

TEST(DecodeTasks, WhatATaskHoldsIsReleasedWhenItEnds) {
  const auto executor = make_executor(2);
  DecodeTasks tasks(*executor);
  for (int i = 0; i < 1000; ++i) {
    auto held = std::make_shared<int>(i);
    const std::weak_ptr<int> left = held;
    const Tasks one = {tasks.submit([held = std::move(held)] {})};
    tasks.wait(one, false);
    ASSERT_TRUE(left.expired());
  }
}

TEST(DecodeTasks, TheDestructorWaits) {
  const auto executor = make_executor(2);
  std::atomic<int> ran = 0;
  {
    DecodeTasks tasks(*executor);
    for (int i = 0; i < 100; ++i) tasks.submit([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace isocost
