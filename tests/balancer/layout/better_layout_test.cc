#include "balancer/layout/better_layout.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/random.h"
#include "costmodel/sample_cost.h"

namespace isocost {
namespace {

std::vector<std::vector<SampleCost>> batches_of(const CostProfile& profile) {
  Random random(3);
  const SamplePrices prices(profile);
  std::vector<std::vector<SampleCost>> batches(2);
  for (auto& batch : batches) {
    for (int i = 0; i < 64; ++i) {
      const auto patches = static_cast<std::int64_t>(1024 * (1 + random.below(5)));
      batch.push_back(prices.of(load_of_counts(patches, patches / 4 + 200)));
    }
  }
  return batches;
}

// Both modules in one pipeline of a machine's GPUs.
Layout pipeline_of(std::size_t tensor, std::size_t stages, std::size_t data) {
  Layout layout;
  layout.encoder_place = EncoderPlacement::kLlmRanks;
  layout.encoder = layout.llm = {.tensor = tensor, .pipeline = stages, .data = data};
  layout.microbatches = 4;
  return layout;
}

class BetterLayout : public testing::Test {
 protected:
  LayoutComparison compare(const Layout& present) {
    LayoutSearchContext context;
    context.executor = executor_.get();
    return compare_with_best(job_, present, batches_of(job_.profile), context).value();
  }

  JobModel job_;
  std::unique_ptr<Executor> executor_ = make_executor(2);
};

TEST_F(BetterLayout, SaysWhatABadLayoutCosts) {
  const LayoutComparison bad = compare(pipeline_of(4, 4, 1));
  EXPECT_GT(bad.gain(), 0.1);
  EXPECT_NEAR(bad.gain(), bad.present.step_s / bad.best.step_s - 1, 1e-12);
  EXPECT_EQ(bad.best.layout.ranks(), 16U);
  EXPECT_TRUE(bad.best.fits);
}

TEST_F(BetterLayout, FindsNoneForTheBest) {
  const Layout best = compare(pipeline_of(4, 4, 1)).best.layout;
  EXPECT_LT(compare(best).gain(), 0.01);
}

TEST_F(BetterLayout, StaysWithTheFramework) {
  Layout sharded = pipeline_of(1, 1, 16);
  sharded.llm.shard = sharded.encoder.shard = 16;
  const LayoutSearchOptions options = search_like(job_, sharded);
  EXPECT_EQ(options.framework, Framework::kFsdp2);
  EXPECT_TRUE(options.shard_weights);
  const Layout best = compare(sharded).best.layout;
  EXPECT_TRUE(runs(Framework::kFsdp2, job_, best.llm)) << best.to_string();

  const Layout megatron = fit_to(Framework::kMegatron, job_, pipeline_of(2, 4, 2));
  EXPECT_EQ(search_like(job_, megatron).framework, Framework::kMegatron);
  EXPECT_EQ(search_like(job_, pipeline_of(2, 4, 2)).framework, Framework::kAny);
}

// The command of such a search would otherwise be refused.
TEST_F(BetterLayout, NamesNoFrameworkThatHasNoFileForTheLayout) {
  Layout megatron = fit_to(Framework::kMegatron, job_, pipeline_of(2, 4, 2));
  megatron.schedule = Schedule::kZbH1;
  EXPECT_EQ(search_like(job_, megatron).framework, Framework::kAny);
  Layout adapted = fit_to(Framework::kMegatron, job_, pipeline_of(2, 1, 8));
  ASSERT_EQ(search_like(job_, adapted).framework, Framework::kMegatron);
  adapted.llm_training.weights = TrainedWeights::kAdapters;
  adapted.llm_training.adapter_rank = 16;
  EXPECT_EQ(search_like(job_, adapted).framework, Framework::kAny);
  Layout whole = pipeline_of(1, 1, 16);
  whole.replicated_optimizer = true;
  ASSERT_EQ(search_like(job_, whole).framework, Framework::kFsdp2);
  whole.schedule = Schedule::kGpipe;
  EXPECT_EQ(search_like(job_, whole).framework, Framework::kAny);
}

TEST_F(BetterLayout, TrainsAsTheLayoutDoes) {
  Layout layout = pipeline_of(2, 1, 8);
  layout.schedule = Schedule::kZbH1;
  layout.encoder_training.weights = TrainedWeights::kNone;
  layout.llm_training = {
      .weights = TrainedWeights::kAdapters, .adapter_rank = 16, .recompute = {Recompute::kFull}};
  layout.replicated_optimizer = true;
  const LayoutSearchOptions options = search_like(job_, layout);
  EXPECT_EQ(options.gpus, 16U);
  EXPECT_EQ(options.schedule, Schedule::kZbH1);
  EXPECT_EQ(options.encoder_training.weights, TrainedWeights::kNone);
  EXPECT_EQ(options.llm_training.weights, TrainedWeights::kAdapters);
  EXPECT_EQ(options.llm_training.adapter_rank, 16);
  EXPECT_EQ(options.llm_training.recompute_of(0), Recompute::kNone);
  EXPECT_EQ(options.most_recompute, Recompute::kFull);
  EXPECT_TRUE(options.replicated_optimizer);
  EXPECT_FALSE(options.shard_weights);
}

TEST_F(BetterLayout, TakesAModuleWithABackwardPassAsThawed) {
  Layout layout = pipeline_of(2, 1, 8);
  layout.encoder_training.weights = TrainedWeights::kNone;
  job_.profile.modules.at(static_cast<std::size_t>(CostModule::kVision)).forward_share = 1.0 / 3;
  EXPECT_EQ(search_like(job_, layout).encoder_training.weights, TrainedWeights::kAll);
  const double thawed = compare(layout).present.step_s;
  layout.encoder_training.weights = TrainedWeights::kAll;
  EXPECT_DOUBLE_EQ(thawed, compare(layout).present.step_s);
}

TEST_F(BetterLayout, KnowsTheMemoryThatCapsWereMadeOf) {
  job_.cluster.gpu_memory = 141 * kGiB;
  for (Layout layout : {pipeline_of(2, 4, 2), pipeline_of(4, 1, 4)}) {
    for (const auto place : {EncoderPlacement::kLlmRanks, EncoderPlacement::kOwnRanks}) {
      layout.encoder_place = place;
      layout.activation_caps = {};
      const SampleCost mean{.encoder_s = 1, .llm_s = 2, .encoder_units = 1000, .llm_units = 500};
      const RankMemory state =
          state_memory(job_, layout, make_pipeline(job_, layout, mean).value());
      EXPECT_EQ(gpu_memory_of(layout, state, 0.9), std::nullopt);
      layout.activation_caps = activation_caps(job_, state, 0.9);
      EXPECT_EQ(gpu_memory_of(layout, state, 0.9), 141 * kGiB) << layout.to_string();
    }
  }
}

}  // namespace
}  // namespace isocost
