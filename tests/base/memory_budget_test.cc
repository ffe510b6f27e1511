#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace isocost {
namespace {

TEST(MemoryBudget, CountsGrantedBytes) {
  MemoryBudget budget(100);
  auto grant = budget.acquire(60, {}).value();
  EXPECT_EQ(budget.in_use(), 60);
  grant.shrink(20);
  EXPECT_EQ(budget.in_use(), 20);
  EXPECT_EQ(budget.peak(), 60);
  MemoryBudget::Grant moved = std::move(grant);
  moved.release();
  EXPECT_EQ(budget.in_use(), 0);
}

TEST(MemoryBudget, RefusesMoreThanItsLimit) {
  MemoryBudget budget(100);
  EXPECT_EQ(budget.acquire(101, {}).error().code(), ErrorCode::kResourceExhausted);
}

TEST(MemoryBudget, AWaiterGetsReturnedBytes) {
  MemoryBudget budget(100);
  std::optional<MemoryBudget::Grant> held = budget.acquire(80, {}).value();
  std::jthread waiter([&] { EXPECT_TRUE(budget.acquire(50, {}).has_value()); });
  held.reset();
  waiter.join();
  EXPECT_EQ(budget.in_use(), 0);
}

TEST(MemoryBudget, AStoppedWaiterLeavesTheQueue) {
  MemoryBudget budget(100);
  std::optional<MemoryBudget::Grant> held = budget.acquire(100, {}).value();
  std::stop_source stop;
  std::jthread waiter([&] {
    EXPECT_EQ(budget.acquire(50, stop.get_token()).error().code(), ErrorCode::kCancelled);
  });
  stop.request_stop();
  waiter.join();
  held.reset();
  EXPECT_TRUE(budget.acquire(100, {}).has_value());
}

TEST(MemoryBudget, ATryTakesWhatIsFreeOrNothing) {
  MemoryBudget budget(100);
  const auto held = budget.acquire(60, {}).value();
  EXPECT_FALSE(budget.try_acquire(41, 100));
  EXPECT_FALSE(budget.try_acquire(41, 1000));
  EXPECT_FALSE(budget.try_acquire(21, 80));
  EXPECT_FALSE(budget.try_acquire(1, 50));
  {
    const auto more = budget.try_acquire(40, 100);
    ASSERT_TRUE(more);
    EXPECT_EQ(more->bytes(), 40);
    EXPECT_EQ(budget.in_use(), 100);
  }
  EXPECT_EQ(budget.in_use(), 60);
  EXPECT_EQ(budget.peak(), 100);
}

TEST(MemoryBudget, ATryDoesNotOvertakeARequestThatWaits) {
  MemoryBudget budget(100);
  std::optional<MemoryBudget::Grant> held = budget.acquire(60, {}).value();
  std::jthread waiter([&] { EXPECT_TRUE(budget.acquire(50, {}).has_value()); });
  while (budget.try_acquire(1, 100)) std::this_thread::yield();  // until the request waits
  EXPECT_EQ(budget.in_use(), 60);
  held.reset();
  waiter.join();
  EXPECT_TRUE(budget.try_acquire(1, 100));
}

TEST(MemoryBudget, ARequestIsServedInItsTurnWithoutAThreadThatWaits) {
  MemoryBudget budget(100);
  auto held = budget.acquire(80, {}).value();
  MemoryBudget::Request first(budget, 50);
  EXPECT_FALSE(first.take().has_value());
  EXPECT_FALSE(budget.try_acquire(10).has_value()) << "it is not overtaken";
  MemoryBudget::Request second(budget, 50);
  held.release();
  EXPECT_EQ(budget.in_use(), 100) << "both are granted, though nobody has asked again";
  EXPECT_EQ(first.take()->bytes(), 50) << "and is returned at once";
  EXPECT_FALSE(first.take().has_value());
  EXPECT_EQ(budget.in_use(), 50);
}

TEST(MemoryBudget, ARequestThatIsGivenUpMakesWay) {
  MemoryBudget budget(100);
  auto held = budget.acquire(80, {}).value();
  {
    MemoryBudget::Request waiting(budget, 50);
    MemoryBudget::Request behind(budget, 20);
    EXPECT_FALSE(behind.take().has_value());
  }
  EXPECT_TRUE(budget.try_acquire(20).has_value());
  {
    MemoryBudget::Request granted(budget, 20);
  }
  EXPECT_EQ(budget.in_use(), 80);
}

TEST(MemoryBudget, NeverExceedsItsLimitUnderContention) {
  MemoryBudget budget(100);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&budget, t] {
        for (int i = 0; i < 500; ++i) {
          auto grant = budget.acquire(10 + (i * 7 + t * 13) % 60, {}).value();
          grant.shrink(5);
        }
      });
    }
  }
  EXPECT_LE(budget.peak(), 100);
  EXPECT_EQ(budget.in_use(), 0);
}

}  // namespace
}  // namespace isocost
