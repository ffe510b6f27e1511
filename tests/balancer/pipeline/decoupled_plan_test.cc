#include "balancer/pipeline/decoupled_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/random.h"
#include "tests/balancer/pipeline/pipeline_support.h"

namespace isocost {
namespace {

std::vector<double> random_shares(std::size_t chunks, Random& random) {
  std::vector<double> shares(chunks);
  double sum = 0;
  for (double& share : shares) sum += share = 0.5 + random.uniform();
  for (double& share : shares) share /= sum;
  return shares;
}

std::vector<double> random_slowdowns(std::size_t replicas, Random& random) {
  if (random.below(4) > 0) return {};
  std::vector<double> slowdowns(replicas, 1.0);
  slowdowns[random.below(replicas)] = 1 + random.uniform();
  return slowdowns;
}

StepTransfers random_transfers(Random& random) {
  return {.gather = {.seconds = 0.1 * random.uniform(), .layers = 4},
          .reduce = {.seconds = 0.3 * random.uniform(), .layers = 4}};
}

/// 1 to 3 encoder replicas and stages, 1 to 4 LLM replicas, 1 to 3 stages.
PipelineModel random_model(Random& random) {
  PipelineModel model;
  model.schedule = std::array{Schedule::kGpipe, Schedule::k1F1B, Schedule::kZbH1}[random.below(3)];
  model.microbatches = 2 + random.below(6);
  const std::size_t encoder_stages = 1 + random.below(3);
  const std::size_t llm_stages = 1 + random.below(3);
  model.encoder = {.replicas = 1 + random.below(3),
                   .stages = encoder_stages,
                   .shares = random_shares(encoder_stages, random),
                   .microbatch_s = 0.01 * random.uniform(),
                   .activation_bytes_per_unit = 100,
                   .output_bytes_per_unit = 8,
                   .transfers = random_transfers(random)};
  model.llm = {.replicas = 1 + random.below(4),
               .stages = llm_stages,
               .shares = random_shares(llm_stages, random),
               .microbatch_s = 0.02 * random.uniform(),
               .activation_bytes_per_unit = 300,
               .output_bytes_per_unit = 16,
               .transfers = random_transfers(random)};
  model.encoder.replicas = std::min(model.encoder.replicas, model.slots());
  model.encoder.slowdowns = random_slowdowns(model.encoder.replicas * encoder_stages, random);
  model.llm.slowdowns = random_slowdowns(model.llm.replicas * llm_stages, random);
  model.link = {.latency_s = 0.001, .bytes_per_s = random.below(2) == 0 ? 0 : 1e5};
  model.feed_bytes_per_llm_unit = 16;
  model.encoder_ahead = random.below(3);
  return model;
}

/// Some of the samples have no media, from none to all.
std::vector<SampleCost> random_samples(std::size_t count, Random& random) {
  const std::uint64_t with_media = random.below(11);
  std::vector<SampleCost> samples(count);
  for (SampleCost& sample : samples) {
    sample.llm_units = 1 + static_cast<double>(random.below(500));
    sample.llm_s = sample.llm_units * 4e-3;
    if (random.below(10) >= with_media) continue;
    sample.encoder_units = 1 + static_cast<double>(random.below(1000));
    sample.encoder_s = sample.encoder_units * 1e-3;
  }
  return samples;
}

ActivationCaps random_caps(Random& random) {
  if (random.below(2) == 0) return {};
  return {.encoder_bytes = static_cast<std::int64_t>(50'000 + random.below(400'000)),
          .llm_bytes = static_cast<std::int64_t>(100'000 + random.below(1'000'000))};
}

bool keeps(const PipelineReport& report, const ActivationCaps& caps) {
  return std::all_of(report.stages.begin(), report.stages.end(), [&caps](const auto& stage) {
    const std::int64_t cap = stage.encoder ? caps.encoder_bytes : caps.llm_bytes;
    return cap == 0 || stage.peak_activation_bytes <= cap;
  });
}

PipelineStep step_of(const PipelineModel& model, const std::vector<SampleCost>& samples,
                     const DecoupledPlan& plan) {
  return plan.decoupled ? make_step(model, samples, plan.bins, plan.encoder)
                        : make_step(model, microbatch_loads(samples, plan.bins));
}

void expect_every_sample_once(const std::vector<std::vector<std::uint32_t>>& bins,
                              std::vector<int> expected) {
  for (const auto& bin : bins) {
    EXPECT_FALSE(bin.empty());
    for (const std::uint32_t sample : bin) --expected.at(sample);
  }
  EXPECT_THAT(expected, testing::Each(0));
}

void expect_sound(const PipelineModel& model, const std::vector<SampleCost>& samples,
                  const DecoupledPlan& plan, const PipelinePlan& coupled,
                  const PipelineSearchOptions& options) {
  expect_every_sample_once(plan.bins, std::vector<int>(samples.size(), 1));
  if (plan.decoupled) {
    EXPECT_EQ(test::slots_fault(model, samples, plan.bins, plan.encoder), "");
  } else {
    EXPECT_TRUE(plan.encoder.empty());
    EXPECT_EQ(plan.bins, coupled.bins);
  }
  const auto report = simulate(step_of(model, samples, plan));
  ASSERT_TRUE(report.has_value()) << report.error().message();
  // Equal to the last bit for decoupled plans; coupled searches add in another order.
  const double off = plan.decoupled ? 0 : 1e-12 * report->step_s;
  EXPECT_NEAR(plan.step_s, report->step_s, off);
  EXPECT_EQ(plan.fits, keeps(*report, options.caps));
  EXPECT_GE(plan.step_s, plan.lower_bound_s);
  EXPECT_EQ(plan.coupled_s, coupled.step_s);
  if (coupled.fits || !plan.fits) {
    EXPECT_LE(plan.step_s, coupled.step_s);
    EXPECT_EQ(plan.fits, coupled.fits);
  }
}

TEST(Decoupled, IsSoundOnAThousandLayoutsAndBatches) {
  std::size_t decoupled = 0;
  std::size_t saved = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const PipelineModel model = random_model(random);
    const std::vector<SampleCost> samples =
        random_samples(model.slots() + random.below(40), random);
    const PipelineSearchOptions options{
        .evaluations = 640, .exchanges = 20, .caps = random_caps(random), .seed = seed};
    const auto coupled = plan_pipeline(model, samples, PipelinePolicy::kCost, options);
    const auto plan = plan_decoupled(model, samples, PipelinePolicy::kCost, options);
    ASSERT_TRUE(coupled.has_value() && plan.has_value());
    expect_sound(model, samples, *plan, *coupled, options);
    const auto again = plan_decoupled(model, samples, PipelinePolicy::kCost, options);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->bins, plan->bins);
    EXPECT_EQ(again->encoder, plan->encoder);
    EXPECT_EQ(again->step_s, plan->step_s);
    decoupled += plan->decoupled ? 1 : 0;
    saved += plan->step_s < 0.95 * plan->coupled_s ? 1 : 0;
  }
  EXPECT_GT(decoupled, 300U);  // otherwise the test covers little
  EXPECT_GT(saved, 40U);
}

TEST(Decoupled, AgreesWithTheTickingSimulator) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    PipelineModel model = random_model(random);
    model.encoder.slowdowns.clear();
    model.llm.slowdowns.clear();
    model.encoder.microbatch_s = model.llm.microbatch_s = 0;
    model.encoder.transfers = model.llm.transfers = {};
    model.link = {.latency_s = 1, .bytes_per_s = 0};
    model.encoder.shares.assign(model.encoder.stages,
                                1.0 / static_cast<double>(model.encoder.stages));
    model.llm.shares.assign(model.llm.stages, 1.0 / static_cast<double>(model.llm.stages));
    std::vector<SampleCost> samples = random_samples(model.slots() + 10, random);
    // Whole seconds on every stage, forward and backward.
    for (SampleCost& sample : samples) {
      sample.llm_s = static_cast<double>(3 * model.llm.stages * (1 + random.below(3)));
      sample.encoder_s = static_cast<double>(3 * model.encoder.stages * (1 + random.below(3)));
    }
    const auto plan =
        plan_decoupled(model, samples, PipelinePolicy::kCost, {.evaluations = 320, .exchanges = 0});
    ASSERT_TRUE(plan.has_value()) << plan.error().message();
    if (!plan->decoupled) continue;
    PipelineStep step = step_of(model, samples, *plan);
    for (ModulePipeline* module : {&step.encoder, &step.llm}) {
      for (auto& passes : module->passes) {
        for (StagePass& pass : passes) {
          pass.forward_s = std::round(pass.forward_s);
          pass.backward_s = std::round(pass.backward_s);
          pass.weights_s = std::round(pass.weights_s);
        }
      }
    }
    const auto report = simulate(step);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->step_s, test::tick_by_tick(step, *report)) << "seed " << seed;
  }
}

PipelineModel two_encoders_one_llm() {
  PipelineModel model;
  model.microbatches = 2;
  model.encoder = {.replicas = 2, .stages = 1, .shares = {1.0}};
  model.llm = {.replicas = 1, .stages = 1, .shares = {1.0}};
  model.link = {.latency_s = 0, .bytes_per_s = 0};
  return model;
}

// The first of two microbatches has all the encoder work: in a coupled plan one encoder replica is
// idle.
TEST(Decoupled, DividesAMicrobatchOverEncoders) {
  const PipelineModel model = two_encoders_one_llm();
  const std::vector<SampleCost> samples(
      4, {.encoder_s = 3, .llm_s = 3, .encoder_units = 1, .llm_units = 1});
  const MicrobatchBins bins = {{0, 1}, {2, 3}};
  const EncoderSlots slots = {{{0}, {2}}, {{1}, {3}}};
  ASSERT_EQ(test::slots_fault(model, samples, bins, slots), "");
  const PipelineStep step = make_step(model, samples, bins, slots);
  EXPECT_EQ(step.feeds.size(), 4U);
  const auto apart = simulate(step);
  const auto together = simulate(make_step(model, microbatch_loads(samples, bins)));
  ASSERT_TRUE(apart.has_value() && together.has_value());
  EXPECT_EQ(apart->step_s, 1 + 12 + 2);     // one sample per encoder pass at each end
  EXPECT_EQ(together->step_s, 2 + 12 + 4);  // two samples
}

TEST(Decoupled, FeedsCarryTheBytesOfTheirSamples) {
  PipelineModel model = two_encoders_one_llm();
  model.feed_bytes_per_llm_unit = 10;
  std::vector<SampleCost> samples(4,
                                  {.encoder_s = 1, .llm_s = 1, .encoder_units = 1, .llm_units = 1});
  samples[1].llm_units = 5;
  const PipelineStep step = make_step(model, samples, {{0, 1}, {2, 3}}, {{{0, 1, 2}}, {{3}}});
  ASSERT_EQ(step.feeds.size(), 3U);
  EXPECT_EQ(step.feeds[0].bytes, 60);
  EXPECT_EQ(step.feeds[1].bytes, 10);
  EXPECT_EQ(step.feeds[1].microbatch, 1U);
  EXPECT_EQ(step.feeds[2].encoder_replica, 1U);
}

TEST(Decoupled, StaysCoupledWhereThereIsNothingToDecouple) {
  Random random(3);
  PipelineModel model = random_model(random);
  model.encoder.replicas = 2;
  model.encoder.slowdowns.clear();
  model.llm.replicas = 2;
  model.llm.slowdowns.clear();
  std::vector<SampleCost> samples = random_samples(model.slots() + 20, random);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].encoder_units = i == 4 ? 100 : 0;  // one sample for two encoder replicas
    samples[i].encoder_s = i == 4 ? 1 : 0;
  }
  const auto few = plan_decoupled(model, samples, PipelinePolicy::kCost, {});
  ASSERT_TRUE(few.has_value());
  EXPECT_FALSE(few->decoupled);
  for (SampleCost& sample : samples) sample.encoder_units = sample.encoder_s = 1;
  const auto in_order = plan_decoupled(model, samples, PipelinePolicy::kInOrder, {});
  ASSERT_TRUE(in_order.has_value());
  EXPECT_FALSE(in_order->decoupled);
  model.encoder.stages = 0;
  const auto without = plan_decoupled(model, samples, PipelinePolicy::kCost, {});
  ASSERT_TRUE(without.has_value());
  EXPECT_FALSE(without->decoupled);
}

}  // namespace
}  // namespace isocost
