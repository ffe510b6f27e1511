#include "base/executor/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>

namespace isocost {
namespace {

TEST(Executor, RunsAllTasksBeforeItIsDestroyed) {
  std::atomic<int> done = 0;
  {
    const auto executor = make_executor(3);
    for (int i = 0; i < 1000; ++i) executor->submit([&] { ++done; });
  }
  EXPECT_EQ(done, 1000);
}

TEST(Executor, RunsTasksSideBySide) {
  const auto executor = make_executor(2);
  EXPECT_EQ(executor->workers(), 2U);
  // Both tasks must run at once to pass the barrier.
  auto barrier = std::make_shared<std::barrier<>>(2);
  std::atomic<int> passed = 0;
  auto task = [barrier, &passed] {
    barrier->arrive_and_wait();
    ++passed;
    passed.notify_all();
  };
  executor->submit(task);
  executor->submit(task);
  for (int seen = passed; seen < 2; seen = passed) passed.wait(seen);
  EXPECT_EQ(passed, 2);
}

// One of few workers does not hold back another's.
TEST(Executor, EachHasItsOwnWorkers) {
  std::atomic<bool> ran = false;
  const auto small = make_executor(1);
  small->submit([&] { ran = true; });
  constexpr int kWorkers = 6;
  const auto large = make_executor(kWorkers);
  auto all = std::make_shared<std::barrier<>>(kWorkers);
  std::atomic<int> passed = 0;
  for (int i = 0; i < kWorkers; ++i) {
    large->submit([all, &passed] {
      all->arrive_and_wait();  // would block forever with fewer threads than tasks
      ++passed;
      passed.notify_all();
    });
  }
  for (int seen = passed; seen < kWorkers; seen = passed) passed.wait(seen);
  EXPECT_EQ(passed, kWorkers);
}

}  // namespace
}  // namespace isocost
