#include "loader/node/internal/reprofile_budget.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

TEST(ReprofileBudgetTest, AccumulatesAShareOfTrainingLessWhatWasSpent) {
  ReprofileBudget budget(0.01);
  EXPECT_DOUBLE_EQ(budget.accumulated_s(500), 5);
  budget.spend(4, true);
  EXPECT_DOUBLE_EQ(budget.accumulated_s(500), 1);
  budget.spend(4, true);
  EXPECT_DOUBLE_EQ(budget.accumulated_s(500), 0);  // overspent
  EXPECT_DOUBLE_EQ(budget.accumulated_s(1000), 2);
}

TEST(ReprofileBudgetTest, NeedsWhatMeasuringTookTheLastTime) {
  ReprofileBudget budget(0.01);
  EXPECT_DOUBLE_EQ(budget.needed_s(), ReprofileBudget::kFirstSeconds);
  EXPECT_DOUBLE_EQ(budget.wait_s(40), 60);
  budget.spend(3, true);
  EXPECT_DOUBLE_EQ(budget.needed_s(), 3.75);  // it may take longer the next time
  budget.spend(0.1, false);                   // it failed early, which says nothing of the whole
  EXPECT_DOUBLE_EQ(budget.needed_s(), 3.75);
  EXPECT_DOUBLE_EQ(budget.wait_s(100), 585);
  EXPECT_DOUBLE_EQ(budget.wait_s(1000), 0);
}

TEST(ReprofileBudgetTest, GrantsAMinuteOfWhatADayWithoutTrainersAccumulated) {
  ReprofileBudget budget(0.01);
  EXPECT_DOUBLE_EQ(budget.granted_s(500), 5);
  EXPECT_DOUBLE_EQ(budget.granted_s(86'400), ReprofileBudget::kMostSeconds);
  budget.spend(80, true);
  EXPECT_DOUBLE_EQ(budget.granted_s(86'400), 100);  // needed the next time
}

}  // namespace
}  // namespace isocost
