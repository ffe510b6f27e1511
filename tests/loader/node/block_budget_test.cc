#include "loader/node/internal/block_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

namespace isocost {
namespace {

class BlockBudgetTest : public testing::Test {
 protected:
  MemoryBudget budget_{100};
  std::shared_ptr<MemoryBudget> waiting_ = std::make_shared<MemoryBudget>(50);
  BlockBudget memory_{waiting_, budget_};
};

TEST_F(BlockBudgetTest, CountsInBothUntilItIsDropped) {
  auto block = memory_.reserve(30);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(budget_.in_use(), 30);
  EXPECT_EQ(waiting_->in_use(), 30);
  block = nullptr;
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(waiting_->in_use(), 0);
}

// Whatever trainers keep, decoding has the other half.
TEST_F(BlockBudgetTest, TakesNoMoreThanTheHalfOfWhatWaits) {
  const auto block = memory_.reserve(30);
  EXPECT_EQ(memory_.reserve(30), nullptr);
  EXPECT_EQ(memory_.reserve(51), nullptr);
  EXPECT_EQ(budget_.in_use(), 30);
  const auto sample = waiting_->try_acquire(20);
  EXPECT_EQ(memory_.reserve(1), nullptr);
  EXPECT_TRUE(budget_.try_acquire(50).has_value());
}

// Decoding always has requests for more than there is.
TEST_F(BlockBudgetTest, ComesToItsTurnWhereDecodingHasTheWholeBudget) {
  auto decoding = budget_.acquire(100, {}).value();
  EXPECT_EQ(memory_.reserve(30), nullptr);
  MemoryBudget::Request next(budget_, 80);
  decoding.release();
  EXPECT_FALSE(next.take().has_value()) << "it asked later";
  const auto block = memory_.reserve(20);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(waiting_->in_use(), 20) << "the rest is returned";
  EXPECT_TRUE(next.take().has_value());
}

TEST_F(BlockBudgetTest, ALargerBlockAsksAnew) {
  auto decoding = budget_.acquire(100, {}).value();
  EXPECT_EQ(memory_.reserve(20), nullptr);
  EXPECT_EQ(memory_.reserve(40), nullptr);
  EXPECT_EQ(waiting_->in_use(), 40);
  decoding.release();
  EXPECT_NE(memory_.reserve(40), nullptr);
}

TEST_F(BlockBudgetTest, GivesUpWhatNobodyTakes) {
  auto decoding = budget_.acquire(100, {}).value();
  EXPECT_EQ(memory_.reserve(20), nullptr);
  decoding.release();
  EXPECT_EQ(budget_.in_use(), 20);
  memory_.give_up();
  EXPECT_EQ(budget_.in_use(), 0);
  EXPECT_EQ(waiting_->in_use(), 0);
}

TEST_F(BlockBudgetTest, ABlockOutlivesWhatItWasReservedFrom) {
  std::optional<BlockBudget> memory(std::in_place, std::exchange(waiting_, nullptr), budget_);
  const auto block = memory->reserve(20);
  memory.reset();
  EXPECT_NE(block, nullptr);
}

}  // namespace
}  // namespace isocost
