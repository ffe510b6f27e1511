#include "loader/node/decoding/internal/waiting_samples.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/memory_budget.h"

namespace isocost {
namespace {

class WaitingSamplesTest : public testing::Test {
 protected:
  std::shared_ptr<const DecodedSample> decoded(std::int64_t bytes) {
    return std::make_shared<const DecodedSample>(
        DecodedSample{.grant = budget_.try_acquire(bytes).value(), .tensors = {}});
  }

  MemoryBudget budget_{100};
  std::optional<WaitingSamples> waiting_{50};
};

TEST_F(WaitingSamplesTest, CountsASampleUntilItsLastReferenceIsGone) {
  auto kept = waiting_->keep_if_room(decoded(30));
  ASSERT_NE(kept, nullptr);
  auto copy = kept;
  kept.reset();
  EXPECT_EQ(waiting_->samples(), 1);
  EXPECT_EQ(waiting_->bytes(), 30);
  copy.reset();
  EXPECT_EQ(waiting_->samples(), 0);
  EXPECT_EQ(waiting_->bytes(), 0);
  EXPECT_EQ(budget_.in_use(), 0);
}

TEST_F(WaitingSamplesTest, KeepsNoSampleForWhichThereIsNoRoom) {
  const auto kept = waiting_->keep_if_room(decoded(30));
  EXPECT_EQ(waiting_->keep_if_room(decoded(30)), nullptr);
  EXPECT_EQ(waiting_->samples(), 1);
  EXPECT_EQ(budget_.in_use(), 30);
}

TEST_F(WaitingSamplesTest, SharesItsBudgetWithWhatWaitsElsewhere) {
  const auto block = waiting_->budget()->try_acquire(40);
  ASSERT_TRUE(block);
  EXPECT_EQ(waiting_->keep_if_room(decoded(20)), nullptr);
}

TEST_F(WaitingSamplesTest, ASampleMayOutliveIt) {
  auto kept = waiting_->keep_if_room(decoded(30));
  waiting_.reset();
  kept.reset();
  EXPECT_EQ(budget_.in_use(), 0);
}

}  // namespace
}  // namespace isocost
