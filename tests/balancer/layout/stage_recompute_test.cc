#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "balancer/layout/internal/stage_cut.h"
#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"
#include "base/executor/executor.h"
#include "base/random.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// The LLM on two stages of two replicas, behind an encoder with ranks of its own.
Layout two_stages(std::vector<Recompute> recompute) {
  Layout layout{.encoder = {1, 1, 2}, .llm = {1, 2, 2}, .microbatches = 4};
  layout.llm_training.recompute = std::move(recompute);
  layout.layers = {.encoder = {27}, .llm = {12, 16}};
  return layout;
}

const SampleCost kSample{.encoder_s = 1, .llm_s = 4, .encoder_units = 1000, .llm_units = 1000};

std::vector<StagePass> passes_of(const Layout& layout) {
  const JobModel job;
  const PipelineModel model = make_pipeline(job, layout, kSample).value();
  std::vector<StagePass> passes(layout.llm.pipeline);
  llm_passes(model, spread_load(job, layout, kSample), passes);
  return passes;
}

double seconds(const StagePass& pass) { return pass.forward_s + pass.backward_s + pass.weights_s; }

TEST(StageRecompute, EachStageTakesAndKeepsWhatItsRecomputationDoes) {
  const auto none = passes_of(two_stages({Recompute::kNone}));
  const auto full = passes_of(two_stages({Recompute::kFull}));
  const auto mixed = passes_of(two_stages({Recompute::kFull, Recompute::kNone}));
  const double fixed_s = 1e-3;  // a microbatch's own seconds are divided as all others
  EXPECT_NEAR(seconds(mixed[0]), seconds(full[0]), fixed_s);
  EXPECT_NEAR(seconds(mixed[1]), seconds(none[1]), fixed_s);
  EXPECT_NEAR(mixed[0].forward_s / seconds(mixed[0]), full[0].forward_s / seconds(full[0]), 1e-12);
  EXPECT_NEAR(mixed[1].forward_s / seconds(mixed[1]), none[1].forward_s / seconds(none[1]), 1e-12);
  EXPECT_EQ(mixed[0].activation_bytes, full[0].activation_bytes);
  EXPECT_EQ(mixed[0].working_bytes, full[0].working_bytes);
  EXPECT_EQ(mixed[1].activation_bytes, none[1].activation_bytes);
  EXPECT_EQ(mixed[1].working_bytes, none[1].working_bytes);
  EXPECT_LT(mixed[0].activation_bytes, mixed[1].activation_bytes / 5);
}

TEST(StageRecompute, StateIsThatOfTheLayers) {
  const JobModel job;
  const auto state = [&](const Layout& layout) {
    return state_memory(job, layout, make_pipeline(job, layout, kSample).value()).llm_state;
  };
  EXPECT_NEAR(static_cast<double>(state(two_stages({Recompute::kFull, Recompute::kNone}))),
              static_cast<double>(state(two_stages({Recompute::kNone}))), 16);
}

TEST(StageRecompute, BothModulesOfOnePipelineRecomputeByStage) {
  const JobModel job;
  Layout layout{.encoder_place = EncoderPlacement::kLlmRanks,
                .encoder = {1, 2, 2},
                .llm = {1, 2, 2},
                .microbatches = 4};
  layout.encoder_training.recompute =
      layout.llm_training.recompute = {Recompute::kFull, Recompute::kNone};
  layout.layers = {.encoder = {27, 0}, .llm = {8, 20}};
  const auto mixed = passes_of(layout);
  layout.encoder_training.recompute = layout.llm_training.recompute = {Recompute::kFull};
  const auto full = passes_of(layout);
  EXPECT_NEAR(seconds(mixed[0]), seconds(full[0]), 2e-3);
  EXPECT_EQ(mixed[0].activation_bytes, full[0].activation_bytes);
  EXPECT_LT(seconds(mixed[1]), 0.8 * seconds(full[1]));
}

TEST(StageRecompute, StandsInTheLayoutFile) {
  const Layout layout = two_stages({Recompute::kFull, Recompute::kNone});
  EXPECT_EQ(Layout::parse(layout.to_json()).value(), layout);
  EXPECT_THAT(layout.to_json(), HasSubstr("\"recompute\": [\n      \"full\",\n      \"none\"\n"));
  EXPECT_THAT(layout.to_string(), HasSubstr("full on 1 stage, none on 1 recomputation of the LLM"));
}

TEST(StageRecompute, WhatCannotBeIsRefusedByName) {
  const auto refusal = [](const Layout& layout) {
    const auto parsed = Layout::parse(layout.to_json());
    return parsed ? std::string() : parsed.error().message();
  };
  Layout layout = two_stages({Recompute::kFull, Recompute::kNone, Recompute::kNone});
  EXPECT_THAT(refusal(layout), HasSubstr("'llm.recompute' has 3 entries; there are 2 stages"));
  layout = two_stages({Recompute::kFull, Recompute::kNone});
  layout.layers = {};
  EXPECT_THAT(refusal(layout), HasSubstr("differs by stage; give 'llm.layers', too"));
  for (const char* wrong : {"[]", "[\"most\", \"none\"]", "7", "[1, 2]", "\"most\""}) {
    std::string text = two_stages({Recompute::kFull}).to_json();
    text.replace(text.find("\"full\""), 6, wrong);
    const auto parsed = Layout::parse(text);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_THAT(parsed.error().message(),
                HasSubstr("'llm.recompute' must be none, selective or full, or a list with one"));
  }
}

// Tries every division of consecutive layers.
double shortest_stage(const StageCutProblem& problem) {
  const std::size_t stages = problem.llm_layer_s.size();
  double best_s = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, std::int64_t, double)> place =
      [&](std::size_t stage, std::int64_t first, double longest_s) {
        const std::int64_t layers = problem.encoder_layers + problem.llm_layers;
        double stage_s = 0;
        for (std::int64_t next = first; next <= layers; ++next) {
          const bool is_last = stage + 1 == stages;
          const double head_s = problem.head_layers * problem.llm_layer_s[stage];
          if (is_last && next == layers) {
            best_s = std::min(best_s, std::max(longest_s, stage_s + head_s));
          }
          if (!is_last) place(stage + 1, next, std::max(longest_s, stage_s));
          if (next == layers) break;
          stage_s += next < problem.encoder_layers ? problem.encoder_layer_s[stage]
                                                   : problem.llm_layer_s[stage];
        }
      };
  place(0, 0, 0);
  return best_s;
}

TEST(StageCut, IsAsGoodAsTheBestOfAllDivisions) {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t stages = 1 + random.below(4);
    StageCutProblem problem{.encoder_layers = static_cast<std::int64_t>(random.below(5)),
                            .llm_layers = 1 + static_cast<std::int64_t>(random.below(7)),
                            .head_layers = random.uniform()};
    for (std::size_t stage = 0; stage < stages; ++stage) {
      problem.encoder_layer_s.push_back(0.1 + random.uniform());
      problem.llm_layer_s.push_back(0.1 + random.uniform());
    }
    const LayerCut cut = stage_cut(problem);
    double longest_s = 0;
    std::int64_t encoder = 0;
    std::int64_t llm = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      encoder += cut.encoder[stage];
      llm += cut.llm[stage];
      EXPECT_TRUE(cut.llm[stage] == 0 || encoder == problem.encoder_layers) << "in order";
      const double head = stage + 1 == stages ? problem.head_layers : 0;
      longest_s = std::max(
          longest_s, static_cast<double>(cut.encoder[stage]) * problem.encoder_layer_s[stage] +
                         (static_cast<double>(cut.llm[stage]) + head) * problem.llm_layer_s[stage]);
    }
    EXPECT_EQ(encoder, problem.encoder_layers);
    EXPECT_EQ(llm, problem.llm_layers);
    EXPECT_NEAR(longest_s, shortest_stage(problem), 1e-9) << "trial " << trial;
  }
}

// One rank a machine, so that only stages divide the model, and little memory.
TEST(StageRecompute, IsFoundWhereFirstStagesAloneNeedIt) {
  JobModel job;
  job.cluster.gpu_memory = 40 * kGiB;
  job.cluster.gpus_per_node = 1;
  std::vector<SampleCost> batch;
  for (int i = 0; i < 128; ++i) batch.push_back({0.5 + 0.1 * (i % 4), 2.0 + i % 5, 4000, 8000});
  const std::vector<std::vector<SampleCost>> batches = {batch};
  LayoutSearchOptions options;
  options.gpus = 32;
  options.evaluations = 200;
  options.most_recompute = Recompute::kFull;
  const auto executor = make_executor(2);
  LayoutSearchContext context;
  context.executor = executor.get();
  const auto found = search_layouts(job, batches, options, context);
  ASSERT_TRUE(found) << found.error().message();
  const LayoutScore& best = found->best.front();
  ASSERT_TRUE(best.fits);
  ASSERT_TRUE(best.layout.llm_training.by_stage()) << best.layout.to_string();
  EXPECT_EQ(Layout::parse(best.layout.to_json()).value(), best.layout);
  Layout uniform = best.layout;
  uniform.llm_training.recompute.resize(1);  // as its first stage
  uniform.encoder_training.recompute.resize(1);
  uniform.layers = {};
  const auto slower = score_layout(job, uniform, batches, options, options.evaluations);
  ASSERT_TRUE(slower) << slower.error().message();
  EXPECT_GT(slower->step_s, 1.01 * best.step_s);
}

}  // namespace
}  // namespace isocost
