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

// The seconds of a layer of one microbatch, and of the transfers of embeddings and output head.
struct LayerSeconds {
  double forward = 0;
  double backward = 0;
  double gather = 0;
  double scatter = 0;
  double gather_head = 0;
  double scatter_head = 0;
};

// The seconds of one microbatch whose layers are gathered, computed and scattered one after the
// other: a link carries one transfer at a time, and the next layer is gathered as soon as the
// present one computes. Embeddings and head are gathered first and scattered last.
double gathered_microbatch(const LayerSeconds& layer, bool reshard) {
  double link = 0;  // when it is free
  double device = 0;
  const auto transfer = [&](double after, double seconds) {
    link = std::max(link, after) + seconds;
    return link;
  };
  transfer(0, layer.gather_head);
  double ready = transfer(0, layer.gather);
  for (int i = 0; i < kLayers; ++i) {
    const double start = std::max(device, ready);
    if (i + 1 < kLayers) ready = transfer(start, layer.gather);
    device = start + layer.forward;
  }
  if (reshard) ready = transfer(device, layer.gather);
  for (int i = 0; i < kLayers; ++i) {
    const double start = std::max(device, ready);
    if (reshard && i + 1 < kLayers) ready = transfer(start, layer.gather);
    device = start + layer.backward;
    if (layer.scatter > 0) transfer(device, layer.scatter);
  }
  transfer(device, layer.scatter_head);
  return std::max(device, link);
}

// The LLM's transfers over all 64 ranks in this cluster, in seconds of a layer.
LayerSeconds transfers(const JobModel& job) {
  const double rate = 8 * job.cluster.network_bytes_per_s;
  const auto seconds = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) * 63 / 64 / rate + 6 * job.cluster.latency_s;
  };
  return {.gather = seconds(2 * job.llm.layer_parameters()),
          .scatter = seconds(4 * job.llm.layer_parameters()),
          .gather_head = seconds(2 * job.llm.embedding_parameters),
          .scatter_head = seconds(4 * job.llm.embedding_parameters)};
}

// The LLM of a layout over 64 ranks, without what a microbatch takes beside its samples.
ModuleStages sharded_llm(const ModuleTraining& training) {
  Layout layout = joint({1, 1, 64, 64});
  layout.llm_training = training;
  ModuleStages llm = pipeline(layout).llm;
  layout.encoder.shard = layout.llm.shard = 1;
  layout.llm_training.reshard = true;
  llm.microbatch_s -= pipeline(layout).llm.microbatch_s;
  llm.launches_s = 0;
  return llm;
}

// The seconds of all transfers of a microbatch.
double all_seconds(const ModuleStages& module) { return module.pass_transfers.added_s(0, 1); }

TEST(Sharding, AMicrobatchTakesWhatADiscreteSimulationTakes) {
  const JobModel job;
  for (const TrainedWeights weights : {TrainedWeights::kAll, TrainedWeights::kNone}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      for (const bool reshard : {true, false}) {
        const ModuleStages llm =
            sharded_llm({.weights = weights, .recompute = {recompute}, .reshard = reshard});
        LayerSeconds layer = transfers(job);
        if (weights == TrainedWeights::kNone) layer.scatter = layer.scatter_head = 0;
        const double moved = (reshard ? 2 : 1) * layer.gather + layer.scatter;
        for (const double ratio : {0.0, 0.1, 0.3, 0.7, 1.0, 1.5, 3.0, 10.0, 30.0}) {
          const double compute = ratio * moved;  // of a layer
          layer.forward = llm.passes.forward * compute;
          layer.backward = compute - layer.forward;
          const double predicted = llm.microbatch_seconds(kLayers * compute);
          const double simulated = gathered_microbatch(layer, reshard);
          const std::string what = std::string(trained_weights_name(weights)) + ", " +
                                   std::string(recompute_name(recompute)) +
                                   (reshard ? "" : ", stays gathered") + ": computing " +
                                   std::to_string(ratio) + " times the transfers";
          EXPECT_NEAR(predicted / simulated, 1, 0.1) << what;
          EXPECT_LE(predicted, simulated * 1.01) << what;
        }
      }
    }
  }
}

TEST(Sharding, WeightsThatStayGatheredAreGatheredOnce) {
  const ModuleStages twice = sharded_llm({});
  const ModuleStages once = sharded_llm({.reshard = false});
  const LayerSeconds layer = transfers(JobModel{});
  const double gather = layer.gather;
  EXPECT_NEAR(all_seconds(twice) - all_seconds(once), kLayers * gather, 0.01 * gather);
  const ModuleStages frozen = sharded_llm({.weights = TrainedWeights::kNone, .reshard = false});
  EXPECT_EQ(frozen.pass_transfers.backward_s, 0) << "no gradients are scattered";
  EXPECT_NEAR(all_seconds(frozen), kLayers * gather + layer.gather_head, 0.01 * gather);
}

TEST(Sharding, WeightsOfAMachineAreGatheredOverItsOwnLinks) {
  const ModuleStages of_all = pipeline(joint({1, 1, 64, 64})).llm;
  const ModuleStages of_machine = pipeline(joint({1, 1, 64, 8})).llm;
  const double ratio = (63.0 / 64 / 100e9) / (7.0 / 8 / 300e9);  // eight links of 12.5 GB/s
  EXPECT_NEAR(all_seconds(of_all) / all_seconds(of_machine), ratio, 0.02 * ratio);
  EXPECT_EQ(of_all.transfers.reduce.seconds, 0) << "all gradients are scattered by then";
  EXPECT_GT(of_machine.transfers.reduce.seconds, 0) << "machines reduce theirs";
  // Each rank reduces an eighth of the gradients twice, but on its own link alone.
  const double whole = pipeline(joint({1, 1, 64})).llm.transfers.reduce.seconds;
  EXPECT_NEAR(of_machine.transfers.reduce.seconds / whole, 2 * (7.0 / 8) / (63.0 / 64), 0.02);
}

TEST(Sharding, AFrozenModuleScattersNothing) {
  const JobModel job;
  Layout layout = joint({1, 1, 64, 64});
  const PipelineModel trained = pipeline(layout);
  layout.llm_training.weights = layout.encoder_training.weights = TrainedWeights::kNone;
  const PipelineModel frozen = pipeline(layout);
  const auto bytes = [](const Architecture& shape, double of_layers, double of_embeddings) {
    const auto embeddings = static_cast<double>(shape.embedding_parameters);
    return of_layers * (static_cast<double>(shape.parameters()) - embeddings) +
           of_embeddings * embeddings;
  };
  // Layers are gathered twice, and once where no backward pass needs them.
  EXPECT_NEAR(all_seconds(frozen.llm) / all_seconds(trained.llm),
              bytes(job.llm, 4, 2) / bytes(job.llm, 8, 6), 0.01);
  EXPECT_NEAR(all_seconds(frozen.encoder) / all_seconds(trained.encoder),
              bytes(job.encoder, 2, 2) / bytes(job.encoder, 8, 6), 0.05);
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

// The weights of all layers in bf16 in place of two layers' weights. The gradients of the last
// layer are whole in bf16, and in fp32 to be scattered, beside a rank's part of them: 6 + 4/64
// bytes, without the 2 of its weights, which are dropped by then.
TEST(Sharding, WeightsThatStayGatheredAreHeldWhole) {
  const JobModel job;
  const auto state = [&](bool encoder, bool llm) {
    Layout layout = joint({1, 1, 64, 64});
    layout.encoder_training.reshard = encoder;
    layout.llm_training.reshard = llm;
    return static_cast<double>(state_memory(job, layout, pipeline(layout)).llm_state);
  };
  const auto in_layers = [](const Architecture& shape) {
    return 2 * static_cast<double>(shape.parameters() - shape.embedding_parameters);
  };
  const double layer = static_cast<double>(job.llm.layer_parameters());
  const double head = 4 * static_cast<double>(job.llm.embedding_parameters);
  const double dropped = 2 * 2 * layer + std::max(6 * layer, head);
  const double kept = in_layers(job.llm) + std::max((4 + 4.0 / 64) * layer, head);
  EXPECT_NEAR(state(true, false) - state(true, true), kept - dropped, 1e-3 * dropped);
  EXPECT_NEAR(state(false, false) - state(true, false), in_layers(job.encoder), 1e-3 * dropped);
}

TEST(Sharding, StandsInTheLayoutFile) {
  const Layout layout = joint({2, 1, 16, 4});
  EXPECT_EQ(Layout::parse(layout.to_json()).value(), layout);
  EXPECT_EQ(layout.to_string(), "both 2x1x16 sharded by 4, 2 microbatches, 1f1b");
  EXPECT_THAT(joint({2, 1, 16}).to_json(), Not(HasSubstr("shard")));
  Layout gathered = layout;
  gathered.llm_training.reshard = false;
  EXPECT_EQ(Layout::parse(gathered.to_json()).value(), gathered);
  EXPECT_EQ(gathered.to_string(), layout.to_string() + ", LLM stays gathered");
  EXPECT_NE(gathered.fingerprint(), layout.fingerprint());
  EXPECT_THAT(layout.to_json(), Not(HasSubstr("reshard")));
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
  Layout unsharded = joint({1, 1, 16});
  unsharded.llm_training.reshard = false;
  EXPECT_THAT(refusal(unsharded), HasSubstr("'llm.reshard' is given, but every replica holds"));
  Layout frozen = joint({1, 1, 16, 4});
  frozen.encoder_training = {.weights = TrainedWeights::kNone, .reshard = false};
  EXPECT_THAT(refusal(frozen), HasSubstr("'encoder.reshard' is false, but a frozen encoder"));
  frozen.encoder_training.reshard = true;
  frozen.llm_training = {.weights = TrainedWeights::kNone, .reshard = false};
  EXPECT_EQ(refusal(frozen), "") << "its inputs have gradients";
}

// A key that changes nothing is refused, too.
TEST(Sharding, AFileThatReshardsWholeWeightsIsRefused) {
  const auto file = [](const std::string& keys) {
    const std::string degrees = R"({"tensor": 1, "pipeline": 1, "data": 4)" + keys + "}";
    return Layout::parse(R"({"version": 1, "encoder_place": "llm", "encoder": )" + degrees +
                         R"(, "llm": )" + degrees +
                         R"(, "microbatches": 1, "chunks": 1, "schedule": "1f1b"})");
  };
  EXPECT_TRUE(file(R"(, "shard": 4, "reshard": true)").value().llm_training.reshard);
  EXPECT_FALSE(file(R"(, "shard": 4, "reshard": false)").value().llm_training.reshard);
  for (const char* const keys : {R"(, "reshard": true)", R"(, "shard": 1, "reshard": false)"}) {
    EXPECT_THAT(file(keys).error().message(), HasSubstr("or shard them ('encoder.shard')"));
  }
  EXPECT_THAT(file(R"(, "shard": 4, "reshard": 1)").error().message(), HasSubstr("reshard"));
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

// Between machines of one GPU, transfers take longer than passes.
TEST(Sharding, WeightsStayGatheredWhereThatSavesTime) {
  JobModel job;
  job.cluster.gpus_per_node = 1;
  job.cluster.network_bytes_per_s = 2e9;
  job.cluster.gpu_memory = std::int64_t{120} << 30;
  const std::vector<std::vector<SampleCost>> batches = {
      std::vector<SampleCost>(64, {0.5, 2, 4000, 3000})};
  const auto search = [&](std::size_t workers) {
    const auto executor = make_executor(workers);
    LayoutSearchContext context;
    context.executor = executor.get();
    LayoutSearchOptions options;
    options.gpus = 16;
    options.evaluations = 100;
    options.framework = Framework::kFsdp2;
    options.shard_weights = true;
    return search_layouts(job, batches, options, context).value().best;
  };
  const std::vector<LayoutScore> best = search(2);
  const Layout& first = best.front().layout;
  EXPECT_FALSE(first.llm_training.reshard) << first.to_string();
  EXPECT_LE(best.front().memory_bytes, job.cluster.gpu_memory);
  Layout dropped = first;
  dropped.encoder_training.reshard = dropped.llm_training.reshard = true;
  EXPECT_LT(best.front().step_s, 0.99 * score_layout(job, dropped, batches, {}, 100)->step_s);
  for (const std::size_t workers : {1U, 16U}) {
    const std::vector<LayoutScore> again = search(workers);
    ASSERT_EQ(again.size(), best.size());
    for (std::size_t i = 0; i < best.size(); ++i) {
      EXPECT_EQ(again[i].layout, best[i].layout);
      EXPECT_EQ(again[i].step_s, best[i].step_s);
    }
  }
  job.cluster.gpu_memory = std::int64_t{48} << 30;  // the weights of all layers do not fit
  for (const LayoutScore& score : search(2)) EXPECT_TRUE(score.layout.llm_training.reshard);
}

}  // namespace
}  // namespace isocost
