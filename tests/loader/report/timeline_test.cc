#include "loader/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two data-parallel ranks of two microbatches, a second each.
StepPlan plan_of_seconds() {
  StepPlan plan;
  plan.microbatches = 2;
  for (int i = 0; i < 4; ++i) {
    PlannedMicrobatch& bin = plan.bins.emplace_back();
    bin.samples.emplace_back();
    bin.predicted = {0, 0, 1};
  }
  return plan;
}

Report report_of(std::uint32_t step, std::uint32_t microbatch, double seconds) {
  Report report;
  report.position = {0, step, microbatch};
  report.seconds = {kNotMeasured, kNotMeasured, seconds};
  return report;
}

class TimelineTest : public testing::Test {
 protected:
  void add_report(std::int32_t rank, std::uint32_t step, std::uint32_t microbatch, double seconds) {
    timeline_.reported({1, 0, step}, rank, report_of(step, microbatch, seconds), plan_);
  }
  void report_step(std::uint32_t step, double seconds) {
    for (const std::int32_t rank : {0, 1}) {
      for (const std::uint32_t microbatch : {0U, 1U}) add_report(rank, step, microbatch, seconds);
    }
  }

  const StepPlan plan_ = plan_of_seconds();
  Timeline timeline_{nullptr};
};

TEST_F(TimelineTest, DrawsAStepOnceAllOfItIsMeasured) {
  add_report(0, 0, 0, 1);
  add_report(0, 0, 1, 1);
  add_report(1, 0, 1, 2);
  add_report(1, 0, 1, 2);             // again: not the one that is missing
  add_report(1, 0, 0, std::nan(""));  // nor is this a time
  EXPECT_THAT(timeline_.svg(), HasSubstr("No step has been measured completely yet"));
  add_report(1, 0, 0, 2);
  EXPECT_THAT(timeline_.svg(), AllOf(HasSubstr("predicted: epoch 0, step 0: 2 s, 0.0 % idle"),
                                     HasSubstr("measured: epoch 0, step 0: 4 s, 25.0 % idle")));
}

TEST_F(TimelineTest, StaysWithTheNewestStep) {
  add_report(0, 4, 0, 1);  // never completed
  report_step(5, 3);
  EXPECT_THAT(timeline_.svg(), HasSubstr("measured: epoch 0, step 5: 6 s"));
  report_step(4, 1);  // late
  EXPECT_THAT(timeline_.svg(), HasSubstr("measured: epoch 0, step 5: 6 s"));
}

TEST_F(TimelineTest, IncompleteStepsAreDropped) {
  for (std::uint32_t step = 0; step < 1000; ++step) add_report(0, step, 0, 1);
  report_step(1000, 2);
  EXPECT_THAT(timeline_.svg(), HasSubstr("measured: epoch 0, step 1000: 4 s"));
}

}  // namespace
}  // namespace isocost
