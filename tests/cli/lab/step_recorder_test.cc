#include "cli/lab/step_recorder.h"

#include <gtest/gtest.h>

#include <chrono>

namespace isocost::cli {
namespace {

using std::chrono::seconds;

TEST(StepRecorder, RecordsStepsAfterTheWarmUp) {
  PipelineModel model;
  model.llm = {.replicas = 1, .stages = 2, .shares = {0.5, 0.5}};
  StepRecorder recorder(model, /*warm_up=*/1);
  const EmulatedMicrobatches llm = {{{{.llm_s = 3}, {}}}};
  EmulatedTime now;

  recorder.begin(now);
  recorder.end(now + seconds(9), {}, llm);
  EXPECT_TRUE(recorder.steps().empty());

  now += seconds(10);
  recorder.begin(now);
  recorder.end(now + seconds(4), {}, llm);
  ASSERT_EQ(recorder.steps().size(), 1U);
  const EmulatedStep& step = recorder.steps().front();
  EXPECT_EQ(step.seconds, 4);
  EXPECT_TRUE(step.coupled);
  EXPECT_EQ(step.work.llm.passes.size(), 1U);
  EXPECT_TRUE(step.measured);

  EmulatedMicrobatches unmeasured = llm;
  unmeasured[0][0].measured = false;
  recorder.end(now + seconds(8), {}, unmeasured);
  EXPECT_FALSE(recorder.steps().back().measured);
}

}  // namespace
}  // namespace isocost::cli
