#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"
#include "base/executor/executor.h"

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr double kLayers = 28;

Layout joint(const ModuleDegrees& degrees) {
  Layout layout;
  layout.encoder_place = EncoderPlacement::kLlmRanks;
  layout.encoder = layout.llm = degrees;
  layout.microbatches = 2;
  return layout;
}

PipelineModel pipeline(const Layout& layout) {
  return make_pipeline(JobModel{}, layout, {1, 2, 1000, 1000}).value();
}

// The seconds of one microbatch whose layers are gathered, computed and scattered one after the
// other: a link carries one transfer at a time, and the next layer is gathered as soon as the
// present one computes.
double gathered_microbatch(double compute_s, double gather_s, double scatter_s) {
  double link = 0;  // when it is free
  double device = 0;
  const auto transfer = [&](double after, double seconds) {
    link = std::max(link, after) + seconds;
    return link;
  };
  double ready = transfer(0, gather_s);
  for (int layer = 0; layer < kLayers; ++layer) {
    const double start = std::max(device, ready);
    if (layer + 1 < kLayers) ready = transfer(start, gather_s);
    device = start + compute_s / 3;
  }
  ready = transfer(device, gather_s);
  for (int layer = 0; layer < kLayers; ++layer) {
    const double start = std::max(device, ready);
    if (layer + 1 < kLayers) ready = transfer(start, gather_s);
    device = start + compute_s * 2 / 3;
    transfer(device, scatter_s);
  }
  return std::max(device, link);
}

// The LLM's transfers over all 64 ranks in this cluster, in seconds of a layer.
std::pair<double, double> transfers(const JobModel& job) {
  const double weights = kLayers * static_cast<double>(job.llm.layer_parameters());
  const double rate = 8 * job.cluster.network_bytes_per_s;
  const double gather = 2 * weights * 63 / 64 / rate / kLayers + 6 * job.cluster.latency_s;
  const double scatter = 4 * weights * 63 / 64 / rate / kLayers + 6 * job.cluster.latency_s;
  return {gather, scatter};
}

TEST(Sharding, AMicrobatchTakesWhatADiscreteSimulationTakes) {
  const JobModel job;
  const auto [gather, scatter] = transfers(job);
  const ModuleStages whole = pipeline(joint({1, 1, 64})).llm;
  const ModuleStages sharded = pipeline(joint({1, 1, 64, 64})).llm;
  const double exposed = sharded.microbatch_s - whole.microbatch_s;
  for (const double ratio : {0.1, 0.3, 0.7, 1.0, 1.5, 3.0, 10.0, 30.0}) {
    const double compute = ratio * (2 * gather + scatter);  // of a layer
    const double predicted = std::max(sharded.launches_s, kLayers * compute + exposed);
    const double simulated = gathered_microbatch(compute, gather, scatter);
    EXPECT_NEAR(predicted / simulated, 1, 0.1) << "computing " << ratio << " times the transfers";
    EXPECT_LE(predicted, simulated * 1.01);
  }
}

TEST(Sharding, WeightsOfAMachineAreGatheredOverItsOwnLinks) {
  const ModuleStages of_all = pipeline(joint({1, 1, 64, 64})).llm;
  const ModuleStages of_machine = pipeline(joint({1, 1, 64, 8})).llm;
  const double ratio = (63.0 / 64 / 100e9) / (7.0 / 8 / 300e9);  // eight links of 12.5 GB/s
  EXPECT_NEAR(of_all.launches_s / of_machine.launches_s, ratio, 0.02 * ratio);
  EXPECT_EQ(of_all.transfers.reduce.seconds, 0) << "all gradients are scattered by then";
  EXPECT_GT(of_machine.transfers.reduce.seconds, 0) << "machines reduce theirs";
  // Each rank reduces an eighth of the gradients twice, but on its own link alone.
  const double whole = pipeline(joint({1, 1, 64})).llm.transfers.reduce.seconds;
  EXPECT_NEAR(of_machine.transfers.reduce.seconds / whole, 2 * (7.0 / 8) / (63.0 / 64), 0.02);
}

TEST(Sharding, AFrozenModuleScattersNothing) {
  Layout layout = joint({1, 1, 64, 64});
  const double trained = pipeline(layout).llm.launches_s;
  layout.llm_training.weights = TrainedWeights::kNone;
  EXPECT_NEAR(pipeline(layout).llm.launches_s / trained, 4.0 / 8, 0.01);  // gathered twice
  layout.encoder_training.weights = TrainedWeights::kNone;
  const double encoder = pipeline(joint({1, 1, 64, 64})).encoder.launches_s;
  EXPECT_NEAR(pipeline(layout).encoder.launches_s / encoder, 2.0 / 8, 0.05);  // gathered once
}

// 16 bytes a parameter over the ranks (Rajbhandari et al. 2020, ZeRO, section 3.1: stage 3), and
// what is whole at a time.
TEST(Sharding, StateIsSharded) {
  const JobModel job;
  const auto state = [&](const ModuleDegrees& degrees) {
    const Layout layout = joint(degrees);
    return static_cast<double>(state_memory(job, layout, pipeline(layout)).llm_state);
  };
  const double all = static_cast<double>(job.llm.parameters() + job.encoder_parameters());
  // Two layers' weights and one layer's gradients, the latter in bf16 and while they are scattered
  // in fp32; embeddings and head with their gradients, which are scattered last.
  const double layer = static_cast<double>(job.llm.layer_parameters());
  const auto head = static_cast<double>(job.llm.embedding_parameters);
  const double whole = 2 * 2 * layer + std::max(6 * layer, 4 * head) +
                       (2 + 2) * (head + static_cast<double>(job.encoder.embedding_parameters));
  EXPECT_NEAR(state({1, 1, 64, 64}), 16 * all / 64 + whole, 1e-3 * whole);
  EXPECT_NEAR(state({1, 1, 64, 8}), 16 * all / 8 + whole, 1e-3 * whole);
  EXPECT_NEAR(state({2, 1, 32, 32}), (16 * all / 32 + whole) / 2, 1e-3 * whole);
}

TEST(Sharding, StandsInTheLayoutFile) {
  const Layout layout = joint({2, 1, 16, 4});
  EXPECT_EQ(Layout::parse(layout.to_json()).value(), layout);
  EXPECT_EQ(layout.to_string(), "both 2x1x16 sharded by 4, 2 microbatches, 1f1b");
  EXPECT_THAT(joint({2, 1, 16}).to_json(), Not(HasSubstr("shard")));
}

TEST(Sharding, WhatCannotBeIsRefusedByName) {
  const auto refusal = [](const Layout& layout) {
    const Status status = layout.validate();
    return status ? std::string() : status.error().message();
  };
  EXPECT_THAT(refusal(joint({1, 1, 16, 3})),
              HasSubstr("'encoder.shard' is 3; it must divide encoder.data (16)"));
  EXPECT_THAT(refusal(joint({1, 2, 16, 4})), HasSubstr("modules of one stage alone"));
  Layout replicated = joint({1, 1, 16, 4});
  replicated.replicated_optimizer = true;
  EXPECT_THAT(refusal(replicated), HasSubstr("cannot be replicated"));
}

TEST(Sharding, IsSearchedOnlyWhereItIsAskedFor) {
  std::vector<SampleCost> batch(64, {0.5, 2, 4000, 3000});
  const std::vector<std::vector<SampleCost>> batches = {batch};
  const auto executor = make_executor(2);
  LayoutSearchContext context;
  context.executor = executor.get();
  LayoutSearchOptions options;
  options.gpus = 16;
  options.evaluations = 100;
  const auto best = [&] {
    return search_layouts(JobModel{}, batches, options, context).value().best;
  };
  for (const LayoutScore& score : best()) EXPECT_EQ(score.layout.llm.shard, 1U);
  const double without = best().front().step_s;
  options.shard_weights = true;
  EXPECT_LE(best().front().step_s, without);
  EXPECT_TRUE(
      std::ranges::any_of(best(), [](const auto& score) { return score.layout.llm.shard > 1; }));
}

}  // namespace
}  // namespace isocost
