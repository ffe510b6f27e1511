#include "cli/lab/step_recorder.h"

#include <gtest/gtest.h>

#include <chrono>

namespace isocost::cli {
namespace {

using std::chrono::seconds;

TEST(StepRecorder, RecordsStepsAfterTheWarmUp) {
  PipelineModel model;
  model.llm = {.replicas = 1, .stages = 2, .shares = {0.5, 0.5}};
  StepRecorder recorder(model, /*stages=*/2, /*warm_up=*/1);
  const EmulatedMicrobatches llm = {{{{.llm_s = 3}, {}}}};
  EmulatedTime now;

  recorder.begin(now);
  recorder.add_data_wait(0, 100);
  recorder.end(now + seconds(9), {}, llm);
  EXPECT_TRUE(recorder.steps().empty());

  now += seconds(10);
  recorder.begin(now);
  recorder.add_data_wait(0, 1);
  recorder.add_data_wait(0, 2);
  recorder.add_data_wait(1, 5);
  recorder.end(now + seconds(4), {}, llm);
  ASSERT_EQ(recorder.steps().size(), 1U);
  const EmulatedStep& step = recorder.steps().front();
  EXPECT_EQ(step.seconds, 4);
  EXPECT_EQ(step.data_wait_s, 4);  // the mean of 3 and 5: waits begin anew with each step
  EXPECT_TRUE(step.coupled);
  EXPECT_EQ(step.work.llm.passes.size(), 1U);
}

}  // namespace
}  // namespace isocost::cli
