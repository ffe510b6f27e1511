#include "balancer/layout/module_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"
#include "base/executor/executor.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kThird = 1.0 / 3;

// Two layers of width 8 with 4 keys and values and a gated MLP of 16: 576 weights each, of which
// the MLP has 384; 2·(48 + 8 + 48) = 208 bytes a token.
Architecture small() {
  return {.name = "small",
          .layers = 2,
          .width = 8,
          .heads = 2,
          .key_value_width = 4,
          .mlp = 16,
          .gated = true,
          .embedding_parameters = 100};
}

TrainedModule module(bool passes_gradients_on = true) {
  return {.shape = small(), .passes_gradients_on = passes_gradients_on};
}

TEST(TrainingWork, AModuleThatIsTrainedWholeTakesWhatWasMeasured) {
  const TrainingWork work = training_work(module(), {});
  EXPECT_DOUBLE_EQ(work.seconds, 1);
  EXPECT_DOUBLE_EQ(work.passes.forward, kThird);
  EXPECT_DOUBLE_EQ(work.passes.weights, kThird);
  EXPECT_EQ(work.reductions, 4);
  EXPECT_DOUBLE_EQ(work.activations, 1);
  EXPECT_EQ(work.working, 0);
}

TEST(TrainingWork, AFrozenEncoderRunsItsForwardPassAloneAndKeepsNothing) {
  const TrainingWork work = training_work(module(false), {.weights = TrainedWeights::kNone});
  EXPECT_DOUBLE_EQ(work.seconds, kThird);
  EXPECT_EQ(work.passes.forward, 1);
  EXPECT_FALSE(work.passes.has_backward());
  EXPECT_EQ(work.reductions, 2);
  EXPECT_EQ(work.activations, 0);
  // While a layer runs it holds 2·(3·8 + 8 + 8 + 2·16) = 144 of two layers' 416 bytes.
  EXPECT_DOUBLE_EQ(work.working, 144.0 / 416);
}

TEST(TrainingWork, AFrozenLlmComputesGradientsOfItsInputsAlone) {
  const TrainingWork work = training_work(module(), {.weights = TrainedWeights::kNone});
  EXPECT_DOUBLE_EQ(work.seconds, 2 * kThird);
  EXPECT_DOUBLE_EQ(work.passes.forward, 0.5);
  EXPECT_DOUBLE_EQ(work.passes.inputs, 0.5);
  EXPECT_EQ(work.passes.weights, 0);
  EXPECT_EQ(work.reductions, 4);
  EXPECT_DOUBLE_EQ(work.activations, 144.0 / 208);
}

TEST(TrainingWork, AdaptersTakeAsMuchLongerAsTheyAreMore) {
  const ModuleTraining training{.weights = TrainedWeights::kAdapters, .adapter_rank = 2};
  // A layer's, by rank: attention's four 4·8 + 2·(8 + 4), the MLP's three 3·(8 + 16).
  EXPECT_EQ(adapter_parameters(small(), training), 2 * 2 * (56 + 72));
  EXPECT_EQ(adapter_parameters(small(), {}), 0);
  const TrainingWork work = training_work(module(), training);
  const double more = 2.0 * 128 / 576;
  EXPECT_DOUBLE_EQ(work.seconds, kThird * (2 * (1 + more) + more));
  EXPECT_NEAR(work.passes.weights, kThird * more / work.seconds, 1e-12);
  EXPECT_DOUBLE_EQ(work.activations, (208 + 2.0 * 7 * 2) / 208);
}

TEST(TrainingWork, AFullRecomputationRunsTheForwardPassAgain) {
  const TrainingWork work = training_work(module(), {.recompute = {Recompute::kFull}});
  EXPECT_DOUBLE_EQ(work.seconds, 4 * kThird);
  EXPECT_DOUBLE_EQ(work.passes.forward, 0.25);
  EXPECT_DOUBLE_EQ(work.passes.inputs, 0.5);
  EXPECT_DOUBLE_EQ(work.passes.weights, 0.25);
  EXPECT_EQ(work.reductions, 6);
  EXPECT_DOUBLE_EQ(work.activations, 16.0 / 208);
  EXPECT_DOUBLE_EQ(work.working, (208.0 - 16) / 416);
}

TEST(TrainingWork, TheOutputHeadIsNotComputedAgain) {
  TrainedModule with_head = module();
  with_head.head_layers = 2;
  const TrainingWork work = training_work(with_head, {.recompute = {Recompute::kFull}});
  EXPECT_DOUBLE_EQ(work.seconds, 1 + 0.5 * kThird);
  EXPECT_DOUBLE_EQ(work.activations, (2 * 16.0 + 2 * 208) / (4 * 208));
}

TEST(TrainingWork, ASelectiveRecomputationRunsTheMlpsAgain) {
  const TrainingWork work = training_work(module(), {.recompute = {Recompute::kSelective}});
  EXPECT_DOUBLE_EQ(work.seconds, 1 + kThird * 384 / 576);
  EXPECT_EQ(work.reductions, 5);
  EXPECT_DOUBLE_EQ(work.activations, (208.0 - 96) / 208);
  EXPECT_DOUBLE_EQ(work.working, 96.0 / 416);
}

// The MLP's input is kept only because it is computed again: 2·(3·8 + 2·4) and twice 16 bytes.
TEST(TrainingWork, ASelectiveRecomputationKeepsTheInputOfAFrozenMlp) {
  const TrainingWork work = training_work(
      module(), {.weights = TrainedWeights::kNone, .recompute = {Recompute::kSelective}});
  EXPECT_DOUBLE_EQ(work.activations, (64.0 + 32) / 208);
  EXPECT_DOUBLE_EQ(work.working, 64.0 / 416);
}

TEST(TrainingWork, TheShareOfTheForwardPassIsTheMeasuredOne) {
  TrainedModule measured = module();
  measured.forward_share = 0.4;
  EXPECT_DOUBLE_EQ(training_work(measured, {.weights = TrainedWeights::kNone}).seconds, 0.7);
  EXPECT_DOUBLE_EQ(training_work(measured, {.recompute = {Recompute::kFull}}).seconds, 1.4);
}

Layout layout_with(const ModuleTraining& encoder, const ModuleTraining& llm) {
  Layout layout;
  layout.encoder = {.data = 2};
  layout.llm = {.tensor = 2, .pipeline = 2, .data = 4};
  layout.microbatches = 8;
  layout.encoder_training = encoder;
  layout.llm_training = llm;
  return layout;
}

TEST(ModuleTraining, StandsInTheLayoutFile) {
  Layout layout =
      layout_with({.weights = TrainedWeights::kNone}, {.weights = TrainedWeights::kAdapters,
                                                       .adapter_rank = 16,
                                                       .recompute = {Recompute::kSelective}});
  layout.replicated_optimizer = true;
  const std::string json = layout.to_json();
  EXPECT_THAT(json, AllOf(HasSubstr(R"("train": "none")"), HasSubstr(R"("adapter_rank": 16)"),
                          HasSubstr(R"("optimizer": "replicated")")));
  EXPECT_EQ(Layout::parse(json).value(), layout);
  EXPECT_EQ(
      layout.to_string(),
      "encoder 1x1x2, llm 2x2x4, 8 microbatches, 1f1b, encoder frozen, adapters of rank 16 in "
      "the LLM, selective recomputation of the LLM, replicated optimizer");
  EXPECT_THAT(layout_with({}, {}).to_json(), Not(HasSubstr("train")));
}

TEST(ModuleTraining, WhatCannotBeIsRefusedByName) {
  const auto refusal = [](const ModuleTraining& encoder, const ModuleTraining& llm) {
    const Status status = layout_with(encoder, llm).validate();
    return status ? std::string() : status.error().message();
  };
  EXPECT_THAT(refusal({}, {.weights = TrainedWeights::kAdapters}),
              HasSubstr("'llm.adapter_rank' is 0; adapters need a rank between 1 and 65536"));
  EXPECT_THAT(refusal({.adapter_rank = 8}, {}),
              HasSubstr("'encoder.adapter_rank' is 8; only a module with \"train\": \"adapters\""));
  EXPECT_THAT(refusal({.weights = TrainedWeights::kNone, .recompute = {Recompute::kFull}}, {}),
              HasSubstr("'encoder.recompute' is given, but a frozen encoder has no backward pass"));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(ModuleTraining, UnknownNamesInTheFileAreRefused) {
  const std::string json = layout_with({.weights = TrainedWeights::kNone}, {}).to_json();
  const auto message = [](const std::string& text) {
    const auto layout = Layout::parse(text);
    return layout ? std::string() : layout.error().message();
  };
  EXPECT_THAT(message(replaced(json, R"("train": "none")", R"("train": "frozen")")),
              AllOf(HasSubstr("train"), HasSubstr("must be all, adapters or none")));
  EXPECT_THAT(message(replaced(json, R"("train": "none")", R"("recompute": "yes")")),
              HasSubstr("must be none, selective or full"));
  EXPECT_THAT(message(replaced(json, R"("chunks")", R"("optimizer": "zero", "chunks")")),
              HasSubstr(R"(must be "sharded" or "replicated")"));
}

// Bytes of a rank by Rajbhandari et al. 2020, section 3.1, for the fullest LLM stage: the last one,
// with the head. A tensor rank has a half, and each of four replicas a quarter of the optimizer.
TEST(ModuleTraining, StateIsThatOfWhatIsTrained) {
  const JobModel job;
  const SampleCost mean{1, 2, 1000, 1000};
  const auto llm_state = [&](const Layout& layout) {
    return static_cast<double>(
        state_memory(job, layout, make_pipeline(job, layout, mean).value()).llm_state);
  };
  const Layout whole = layout_with({}, {});
  const double parameters = llm_state(whole) / (2 + 4 + 12.0 / 4);  // of the rank
  Layout replicated = whole;
  replicated.replicated_optimizer = true;
  EXPECT_NEAR(llm_state(replicated), 18 * parameters, 16);
  EXPECT_NEAR(llm_state(layout_with({}, {.weights = TrainedWeights::kNone})), 2 * parameters, 16);
  const ModuleTraining adapters{.weights = TrainedWeights::kAdapters, .adapter_rank = 16};
  const double more = llm_state(layout_with({}, adapters)) - 2 * parameters;
  const double of_half = adapter_parameters(job.llm, adapters) / 2 / 2;  // stages, tensor ranks
  EXPECT_NEAR(more / (9 + 2), of_half, 0.2 * of_half);  // the last stage has fewer layers
}

TEST(ModuleTraining, OnlyWhatIsTrainedIsReduced) {
  const JobModel job;
  const SampleCost mean{1, 2, 1000, 1000};
  const auto pipeline = [&](const ModuleTraining& encoder, const ModuleTraining& llm) {
    return make_pipeline(job, layout_with(encoder, llm), mean).value();
  };
  const PipelineModel whole = pipeline({}, {});
  const PipelineModel frozen =
      pipeline({.weights = TrainedWeights::kNone}, {.weights = TrainedWeights::kNone});
  EXPECT_GT(whole.encoder.transfers.reduce.seconds, 0);
  EXPECT_EQ(frozen.encoder.transfers.reduce.seconds, 0);
  EXPECT_EQ(frozen.llm.transfers.reduce.seconds, 0);
  const PipelineModel adapters =
      pipeline({}, {.weights = TrainedWeights::kAdapters, .adapter_rank = 16});
  EXPECT_LT(adapters.llm.transfers.reduce.seconds, 0.02 * whole.llm.transfers.reduce.seconds);
  Layout replicated = layout_with({}, {});
  replicated.replicated_optimizer = true;
  const StepTransfers of_replicated = make_pipeline(job, replicated, mean)->llm.transfers;
  EXPECT_EQ(of_replicated.gather.seconds, 0);
  EXPECT_NEAR(of_replicated.reduce.seconds / whole.llm.transfers.reduce.seconds, 2, 1e-3);
  EXPECT_NEAR(whole.llm.transfers.gather.seconds / whole.llm.transfers.reduce.seconds, 0.5, 0.01);
}

// The encoder of this profile was measured without a backward pass.
TEST(ModuleTraining, AnEncoderThatWasMeasuredWithoutABackwardPassIsFrozen) {
  JobModel job;
  ProfilePoint point;
  point.load.add_sequence(1000);
  point.forward_s = 1;
  job.profile.modules[static_cast<std::size_t>(CostModule::kVision)].points = {point};
  const SampleCost mean{1, 2, 1000, 1000};
  const PipelineModel model = make_pipeline(job, layout_with({}, {}), mean).value();
  EXPECT_FALSE(model.encoder.passes.has_backward());
  EXPECT_EQ(model.encoder.activation_bytes_per_unit, 0);
  EXPECT_EQ(model.encoder.transfers.reduce.seconds, 0);
  EXPECT_EQ(trained_cost(job, layout_with({}, {}), mean).encoder_s, 1) << "as it was measured";
  const auto adapters = make_pipeline(
      job, layout_with({.weights = TrainedWeights::kAdapters, .adapter_rank = 4}, {}), mean);
  ASSERT_FALSE(adapters);
  const auto executor = make_executor(2);
  LayoutSearchContext context;
  context.executor = executor.get();
  LayoutSearchOptions options;
  options.gpus = 4;
  options.evaluations = 100;
  options.most_recompute = Recompute::kFull;
  const std::vector<std::vector<SampleCost>> batches = {std::vector<SampleCost>(16, mean)};
  const auto found = search_layouts(job, batches, options, context);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->best.front().layout.encoder_training.weights, TrainedWeights::kNone);
  options.encoder_training = {.weights = TrainedWeights::kAdapters, .adapter_rank = 4};
  const auto refused = search_layouts(job, batches, options, context);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), adapters.error().message());
  EXPECT_THAT(adapters.error().message(),
              HasSubstr("measured the encoder without a backward pass"));
}

// A median of a half without a forward pass divides nothing.
TEST(ModuleTraining, PointsThatDoNotTellPassesApartAreRefused) {
  const auto message = [](double forward_s, double backward_s) {
    JobModel job;
    ProfilePoint point;
    point.load.add_sequence(1000);
    point.forward_s = forward_s;
    point.backward_s = backward_s;
    ProfilePoint small = point;
    small.load = {};
    small.load.add_sequence(10);
    small.forward_s = small.backward_s = 0.001;
    job.profile.modules[static_cast<std::size_t>(CostModule::kLlm)].points = {point, small};
    const auto model = make_pipeline(job, layout_with({}, {}), {1, 2, 1000, 1000});
    return model ? std::string() : model.error().message();
  };
  EXPECT_THAT(message(0, 1), HasSubstr("has points of the LLM without a forward pass"));
  EXPECT_THAT(message(1, 0), HasSubstr("without a backward pass beside others with one"));
  EXPECT_EQ(message(1, 2), "");
}

std::vector<std::vector<SampleCost>> long_batches() {
  std::vector<SampleCost> batch;
  for (int i = 0; i < 32; ++i) batch.push_back({0.5 + 0.1 * (i % 4), 2.0 + i % 5, 4000, 16'000});
  return {batch};
}

LayoutSearchOptions search_options() {
  LayoutSearchOptions options;
  options.gpus = 8;
  options.keep = 1;
  options.evaluations = 200;
  return options;
}

Result<LayoutSearchResult> search(const LayoutSearchOptions& options, std::int64_t gpu_memory) {
  JobModel job;
  job.cluster.gpu_memory = gpu_memory;
  const auto executor = make_executor(2);
  LayoutSearchContext context;
  context.executor = executor.get();
  return search_layouts(job, long_batches(), options, context);
}

TEST(LayoutSearchTraining, RecomputesOnlyWhereALayoutDoesNotFitWithout) {
  LayoutSearchOptions options = search_options();
  const auto without = search(options, 24 * kGiB);
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message(), HasSubstr("a layout may fit with --recompute auto"));
  options.most_recompute = Recompute::kFull;
  const auto tight = search(options, 24 * kGiB);
  ASSERT_TRUE(tight) << tight.error().message();
  EXPECT_TRUE(tight->best.front().fits);
  EXPECT_TRUE(tight->best.front().layout.llm_training.recomputes());
  const auto roomy = search(options, 1000 * kGiB);
  ASSERT_TRUE(roomy) << roomy.error().message();
  EXPECT_FALSE(roomy->best.front().layout.llm_training.recomputes());
  EXPECT_LT(roomy->best.front().step_s, tight->best.front().step_s);
}

TEST(LayoutSearchTraining, FrozenModulesAndAdaptersTakeLessTime) {
  LayoutSearchOptions options = search_options();
  const auto whole = search(options, 200 * kGiB);
  ASSERT_TRUE(whole) << whole.error().message();
  options.encoder_training.weights = TrainedWeights::kNone;
  const auto frozen = search(options, 200 * kGiB);
  ASSERT_TRUE(frozen) << frozen.error().message();
  EXPECT_LT(frozen->best.front().step_s, whole->best.front().step_s);
  options.llm_training = {.weights = TrainedWeights::kAdapters, .adapter_rank = 16};
  const auto adapters = search(options, 200 * kGiB);
  ASSERT_TRUE(adapters) << adapters.error().message();
  EXPECT_LT(adapters->best.front().step_s, frozen->best.front().step_s);
}

}  // namespace
}  // namespace isocost
