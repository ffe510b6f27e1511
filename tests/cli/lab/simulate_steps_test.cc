#include "cli/lab/simulate_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "balancer/layout/layout_model.h"

namespace isocost::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SimulateSteps, PoliciesAreNamedInAList) {
  EXPECT_THAT(parse_policies("in-order, tokens,lpt,cost").value(),
              ElementsAre(PipelinePolicy::kInOrder, PipelinePolicy::kTokens, PipelinePolicy::kLpt,
                          PipelinePolicy::kCost));
  for (const char* wrong : {"", "isocost", "lpt,"}) {
    const auto refused = parse_policies(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_THAT(refused.error().message(), HasSubstr("it must be in-order, tokens, lpt or cost"));
  }
}

// One stage for both modules, two replicas of one microbatch each: a step takes as long as the
// larger of two bins.
TEST(SimulateSteps, MeansAreOverTheStepsAndExtremesOverAllOfThem) {
  SimulateArguments arguments;
  arguments.steps = 2;
  JobModel job;
  const Layout layout{.encoder_place = EncoderPlacement::kLlmRanks,
                      .encoder = {1, 1, 2},
                      .llm = {1, 1, 2},
                      .microbatches = 1};
  const auto sample = [](double seconds) { return SampleCost{.llm_s = seconds, .llm_units = 1}; };
  const SampledBatches batches = {{sample(6), sample(1), sample(1), sample(6)},
                                  {sample(2), sample(2), sample(2), sample(2)}};
  PipelineModel model;
  model.microbatches = 1;
  model.llm = {.replicas = 2, .stages = 1, .shares = {1}};
  const auto results = simulate_steps(arguments, {PipelinePolicy::kInOrder, PipelinePolicy::kCost},
                                      job, layout, model, batches);
  ASSERT_TRUE(results.has_value()) << results.error().message();
  ASSERT_EQ(results->policies.size(), 2U);
  const PolicyResult& cost = results->policies[1];
  EXPECT_NEAR(cost.step_s, (7.0 + 4) / 2, 1e-9);
  EXPECT_NEAR(cost.bound_s, (7.0 + 4) / 2, 1e-9);
  EXPECT_NEAR(cost.idle_fraction, 0, 1e-9);
  EXPECT_NEAR(cost.rank_max_over_mean, 1, 1e-9);
  EXPECT_TRUE(cost.fits);
  EXPECT_GE(results->policies[0].step_s, cost.step_s);
}

}  // namespace
}  // namespace isocost::cli
