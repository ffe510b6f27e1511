#include "balancer/layout/framework.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "balancer/layout/layout_search.h"
#include "costmodel/sample_cost.h"

namespace isocost {
namespace {

using testing::Each;

SampleCost sample(std::int64_t patches, std::int64_t tokens) {
  return SamplePrices(CostProfile::stated_default()).of(load_of_counts(patches, tokens));
}

class FrameworkTest : public testing::Test {
 protected:
  FrameworkTest() {
    context_.executor = executor_.get();
    for (int i = 0; i < 64; ++i) batches_.front().push_back(sample(1024 * (1 + i % 8), 900));
  }

  std::vector<Layout> best(LayoutSearchOptions options) {
    options.evaluations = 50;
    options.keep = 100;
    const auto found = search_layouts(job_, batches_, options, context_);
    EXPECT_TRUE(found.has_value()) << found.error().message();
    EXPECT_FALSE(found->mean_shape.has_value());
    std::vector<Layout> layouts;
    for (const LayoutScore& score : found->best) layouts.push_back(score.layout);
    return layouts;
  }

  JobModel job_;
  std::unique_ptr<Executor> executor_ = make_executor(2);
  LayoutSearchContext context_;
  std::vector<std::vector<SampleCost>> batches_{1};
};

TEST(FrameworkName, IsReadBack) {
  for (const Framework framework : {Framework::kAny, Framework::kFsdp2, Framework::kMegatron}) {
    EXPECT_EQ(framework_from_name(framework_name(framework)), framework);
  }
  EXPECT_FALSE(framework_from_name("deepspeed").has_value());
}

TEST_F(FrameworkTest, PytorchHoldsWholeModels) {
  const auto layouts = best({.gpus = 16, .framework = Framework::kFsdp2, .shard_weights = true});
  ASSERT_FALSE(layouts.empty());
  std::size_t sharded = 0;
  for (const Layout& layout : layouts) {
    EXPECT_EQ(layout.encoder_place, EncoderPlacement::kLlmRanks);
    EXPECT_EQ(layout.llm.tensor * layout.llm.pipeline, 1U);
    EXPECT_EQ(layout.replicated_optimizer, layout.llm.shard == 1);
    if (layout.llm.shard > 1) ++sharded;
  }
  EXPECT_GT(sharded, 0U);
}

TEST_F(FrameworkTest, MegatronHasTheWholeEncoderOnTheFirstStage) {
  const auto layouts = best({.gpus = 16, .framework = Framework::kMegatron});
  ASSERT_FALSE(layouts.empty());
  std::size_t stages = 1;
  for (const Layout& layout : layouts) {
    EXPECT_EQ(layout.encoder_place, EncoderPlacement::kLlmRanks);
    EXPECT_EQ(layout.llm.shard, 1U);
    const LayerCut& cut = layout.layers;
    EXPECT_EQ(cut.encoder.front(), job_.encoder.layers);
    EXPECT_EQ(std::accumulate(cut.llm.begin(), cut.llm.end(), std::int64_t{0}), job_.llm.layers);
    EXPECT_THAT(cut.llm, Each(cut.llm.front()));
    stages = std::max(stages, cut.llm.size());
  }
  EXPECT_GT(stages, 1U);
}

TEST_F(FrameworkTest, MegatronRunsStagesThatDivideTheLayersAndNoCheckpointOfTheEncoder) {
  EXPECT_TRUE(runs(Framework::kMegatron, job_, {.pipeline = 7}));
  EXPECT_FALSE(runs(Framework::kMegatron, job_, {.pipeline = 8}));  // of 28 layers
  Layout layout{.encoder_place = EncoderPlacement::kLlmRanks};
  layout.encoder_training.recompute = layout.llm_training.recompute = {Recompute::kFull};
  const Layout fitted = fit_to(Framework::kMegatron, job_, layout);
  EXPECT_FALSE(fitted.encoder_training.recomputes());
  EXPECT_TRUE(fitted.llm_training.recomputes());
}

TEST_F(FrameworkTest, AnyTrainerFollowsTheLayoutAsItIs) {
  const Layout layout{.encoder_place = EncoderPlacement::kLlmRanks};
  EXPECT_EQ(fit_to(Framework::kAny, job_, layout), layout);
  EXPECT_TRUE(runs_encoder_ranks(Framework::kAny));
  EXPECT_TRUE(runs(Framework::kAny, job_, {.tensor = 8, .pipeline = 4, .data = 2}));
  EXPECT_FALSE(runs(Framework::kFsdp2, job_, {.tensor = 2}));
  EXPECT_FALSE(runs(Framework::kMegatron, job_, {.data = 4, .shard = 4}));
}

}  // namespace
}  // namespace isocost
