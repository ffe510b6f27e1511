#include "loader/plan/missing_reports.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace isocost {
namespace {

// Two ranks of two microbatches; the second rank's first one is empty.
StepPlan small_plan() {
  StepPlan plan;
  plan.microbatches = 2;
  for (const double seconds : {1.0, 2.0, 0.0, 3.0}) {
    plan.bins.emplace_back().predicted = {0, 0, seconds};
  }
  return plan;
}

Report report_of(std::uint32_t microbatch, double vision, double llm) {
  Report report;
  report.position.microbatch = microbatch;
  report.seconds = {vision, -1, llm};
  return report;
}

TEST(MissingReports, ExpectsOneForEachMicrobatchWithWork) {
  MissingReports missing(small_plan());
  EXPECT_EQ(missing.receivers(), 2U);
  EXPECT_EQ(missing.left(), 3U);
  EXPECT_TRUE(missing.take(0, 0));
  EXPECT_FALSE(missing.take(0, 0));  // a second time
  EXPECT_FALSE(missing.take(1, 0));  // empty
  EXPECT_FALSE(missing.take(0, 2));
  EXPECT_FALSE(missing.take(2, 0));
  EXPECT_TRUE(missing.take(0, 1));
  EXPECT_TRUE(missing.take(1, 1));
  EXPECT_EQ(missing.left(), 0U);
}

TEST(MeasuredModules, CountSecondsOfAModuleOnce) {
  MeasuredModules measured(small_plan());
  EXPECT_TRUE(measured.take(0, report_of(0, -1, 1)));
  EXPECT_FALSE(measured.take(0, report_of(0, -1, 1)));
  EXPECT_TRUE(measured.take(0, report_of(0, 1, -1)));  // another module of the same microbatch
  EXPECT_FALSE(measured.take(0, report_of(0, 1, -1)));
  EXPECT_TRUE(measured.take(0, report_of(1, 1, 1)));
  EXPECT_TRUE(measured.take(1, report_of(0, 1, 1)));
  EXPECT_FALSE(measured.take(1, report_of(0, -1, 2)));  // as a whole, if one module is known
}

TEST(MeasuredModules, SecondsThatCannotBeATimeDoNotCount) {
  MeasuredModules measured(small_plan());
  EXPECT_TRUE(measured.take(0, report_of(0, -1, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(measured.take(0, report_of(0, -1, 1)));
}

TEST(OpenSteps, ForgetsTheOldestOfMoreThanSixteen) {
  OpenSteps<int> open;
  int made = 0;
  const auto make = [&] { return ++made; };
  for (std::uint32_t step = 0; step < 17; ++step) open.at({1, 0, step}, make);
  EXPECT_EQ(made, 17);
  EXPECT_EQ(open.at({1, 0, 16}, make), 17);
  EXPECT_EQ(open.at({1, 0, 1}, make), 2);
  EXPECT_EQ(open.at({1, 0, 0}, make), 18);  // was forgotten
  open.erase({1, 0, 16});
  EXPECT_EQ(open.at({1, 0, 16}, make), 19);
}

TEST(StepId, OrdersJobsFirst) {
  EXPECT_LT((StepId{1, 9, 9}), (StepId{2, 0, 0}));
  EXPECT_LT((StepId{1, 0, 9}), (StepId{1, 1, 0}));
}

}  // namespace
}  // namespace isocost
