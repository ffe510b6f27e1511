#include "cli/lab/emulated_work.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "balancer/pipeline/simulator.h"

namespace isocost::cli {
namespace {

// Encoder and LLM of one stage each, with two replicas and two microbatches of the LLM.
PipelineModel model_of_two() {
  PipelineModel model;
  model.microbatches = 2;
  model.encoder = {.replicas = 2, .stages = 1, .shares = {1}};
  model.llm = {.replicas = 2, .stages = 1, .shares = {1}};
  return model;
}

EmulatedMicrobatch llm(double seconds, std::vector<EmulatedFeed> feeds) {
  return {{.llm_s = seconds, .llm_units = 1}, std::move(feeds)};
}

EmulatedMicrobatch encoder(double seconds) {
  return {{.encoder_s = seconds, .encoder_units = 1}, {}};
}

TEST(EmulatedWork, CoupledIsOneToOne) {
  EXPECT_TRUE(is_coupled({{llm(1, {{0, 0, 8}}), llm(1, {})}, {llm(1, {{1, 0, 8}})}}));
  EXPECT_FALSE(is_coupled({{llm(1, {{0, 0, 8}, {1, 0, 8}})}}));            // fed by two
  EXPECT_FALSE(is_coupled({{llm(1, {{0, 0, 8}}), llm(1, {{0, 0, 8}})}}));  // feeds two
}

TEST(EmulatedWork, SlotsThatFeedNothingAreLeftOutAndTheOthersRenumbered) {
  const EmulatedMicrobatches encoders = {{encoder(1), encoder(2), encoder(4)}, {encoder(3)}};
  const EmulatedMicrobatches llms = {{llm(1, {{0, 2, 20}}), llm(1, {})},
                                     {llm(1, {{0, 0, 10}, {1, 0, 5}}), llm(1, {})}};
  const PipelineStep step = work_of(model_of_two(), encoders, llms);
  EXPECT_EQ(step.encoder.slots(0), 2U);  // without the second one
  EXPECT_EQ(step.encoder.slots(1), 1U);
  ASSERT_EQ(step.feeds.size(), 3U);
  EXPECT_EQ(step.feeds[0].slot, 1U);  // was slot 2
  EXPECT_EQ(step.feeds[0].bytes, 20);
  EXPECT_EQ(step.feeds[1].slot, 0U);
  EXPECT_EQ(step.feeds[1].llm_replica, 1U);
  EXPECT_EQ(step.feeds[2].encoder_replica, 1U);
  const auto report = simulate(step);
  ASSERT_TRUE(report.has_value()) << report.error().message();
  EXPECT_GE(report->step_s, 1 + 4);      // the work of the first encoder replica
  EXPECT_LT(report->step_s, 1 + 2 + 4);  // without the slot that feeds nothing
}

TEST(EmulatedWork, WithoutEncoderRanksTheLlmIsAlone) {
  PipelineModel model = model_of_two();
  model.encoder.stages = 0;
  const PipelineStep step =
      work_of(model, {}, {{llm(1, {}), llm(2, {})}, {llm(3, {}), llm(1, {})}});
  EXPECT_EQ(step.encoder.stages, 0U);
  EXPECT_TRUE(step.feeds.empty());
  EXPECT_NEAR(simulate(step).value().step_s, 4, 1e-9);
}

}  // namespace
}  // namespace isocost::cli
