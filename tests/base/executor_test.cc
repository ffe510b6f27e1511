#include "base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>

namespace isocost {
namespace {

TEST(Executor, RunsEverythingBeforeItGoes) {
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

}  // namespace
}  // namespace isocost
