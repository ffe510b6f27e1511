#include "balancer/pipeline/pipeline_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace isocost {
namespace {

PipelineModel small_model(Schedule schedule, std::size_t encoders, std::size_t replicas,
                          std::size_t microbatches) {
  PipelineModel model;
  model.schedule = schedule;
  model.microbatches = microbatches;
  model.encoder = {.replicas = encoders,
                   .stages = 1,
                   .shares = {1.0},
                   .microbatch_s = 0.01,
                   .activation_bytes_per_unit = 100,
                   .output_bytes_per_unit = 8};
  model.llm = {.replicas = replicas,
               .stages = 2,
               .shares = {0.5, 0.5},
               .microbatch_s = 0.02,
               .activation_bytes_per_unit = 300,
               .output_bytes_per_unit = 16};
  model.link = {.latency_s = 0.001, .bytes_per_s = 1e6};
  model.feed_bytes_per_llm_unit = 16;
  return model;
}

std::vector<SampleCost> random_samples(std::size_t count, Random& random) {
  std::vector<SampleCost> samples(count);
  for (SampleCost& sample : samples) {
    sample.encoder_units = 1 + static_cast<double>(random.below(1000));
    sample.llm_units = 1 + static_cast<double>(random.below(500));
    sample.encoder_s = sample.encoder_units * 1e-3;
    sample.llm_s = sample.llm_units * 4e-3 + sample.llm_units * sample.llm_units * 1e-6;
  }
  return samples;
}

double step_seconds(const PipelineModel& model, const std::vector<SampleCost>& samples,
                    const MicrobatchBins& bins) {
  const auto report = simulate(make_step(model, microbatch_loads(samples, bins)));
  EXPECT_TRUE(report.has_value()) << report.error().message();
  return report ? report->step_s : -1;
}

void expect_every_sample_once(const MicrobatchBins& bins, std::size_t samples) {
  std::vector<int> seen(samples, 0);
  for (const auto& bin : bins) {
    EXPECT_FALSE(bin.empty());
    for (const std::uint32_t sample : bin) ++seen.at(sample);
  }
  EXPECT_THAT(seen, testing::Each(1));
}

TEST(Order, EqualsTheBestOfAllOrdersOfASmallStep) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const PipelineModel model = small_model(Schedule::k1F1B, 1, 1, 5);
    const std::vector<SampleCost> samples = random_samples(5, random);
    MicrobatchBins bins = {{0}, {1}, {2}, {3}, {4}};
    double best = step_seconds(model, samples, bins);
    while (std::next_permutation(bins.begin(), bins.end())) {
      best = std::min(best, step_seconds(model, samples, bins));
    }
    const auto plan = order_microbatches(model, samples, {{4}, {3}, {2}, {1}, {0}}, {});
    ASSERT_TRUE(plan.has_value());
    EXPECT_NEAR(plan->step_s, best, 1e-12) << "seed " << seed;
    EXPECT_EQ(plan->step_s, step_seconds(model, samples, plan->bins));
    EXPECT_LE(plan->lower_bound_s, best);
  }
}

TEST(Plan, EqualsTheBestOfAllDivisionsOfASmallStep) {
  constexpr std::size_t kSamples = 6;
  constexpr std::size_t kSlots = 3;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Random random(seed);
    const PipelineModel model = small_model(Schedule::k1F1B, 1, 1, kSlots);
    const std::vector<SampleCost> samples = random_samples(kSamples, random);
    double best = 1e9;
    for (std::size_t code = 0; code < 729; ++code) {
      MicrobatchBins bins(kSlots);
      std::size_t rest = code;
      for (std::uint32_t i = 0; i < kSamples; ++i, rest /= kSlots) {
        bins[rest % kSlots].push_back(i);
      }
      const auto is_empty = [](const auto& bin) { return bin.empty(); };
      if (std::any_of(bins.begin(), bins.end(), is_empty)) continue;
      best = std::min(best, step_seconds(model, samples, bins));
    }
    const auto plan = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
    ASSERT_TRUE(plan.has_value());
    EXPECT_NEAR(plan->step_s, best, 1e-12) << "seed " << seed;
  }
}

TEST(Plan, HoldsForEveryScheduleAndDegree) {
  for (const Schedule schedule :
       {Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved1F1B, Schedule::kZbH1}) {
    for (const auto& [encoders, replicas] : {std::pair{1, 1}, {1, 4}, {4, 1}, {2, 4}, {3, 2}}) {
      Random random(17);
      const PipelineModel model = small_model(schedule, static_cast<std::size_t>(encoders),
                                              static_cast<std::size_t>(replicas), 6);
      const std::vector<SampleCost> samples = random_samples(60, random);
      const PipelineSearchOptions options{.evaluations = 300, .exchanges = 100};
      double last = 1e9;
      for (const PipelinePolicy policy : {PipelinePolicy::kInOrder, PipelinePolicy::kTokens,
                                          PipelinePolicy::kLpt, PipelinePolicy::kCost}) {
        const auto plan = plan_pipeline(model, samples, policy, options);
        ASSERT_TRUE(plan.has_value()) << plan.error().message();
        expect_every_sample_once(plan->bins, samples.size());
        // The score of the search equals the simulated step.
        EXPECT_DOUBLE_EQ(plan->step_s, step_seconds(model, samples, plan->bins));
        EXPECT_GE(plan->step_s, plan->lower_bound_s);
        if (policy == PipelinePolicy::kCost) {
          EXPECT_LE(plan->step_s, last);
        }
        last = plan->step_s;
      }
    }
  }
}

TEST(Plan, ByTokensSecondsDoNotCount) {
  const PipelineModel model = small_model(Schedule::k1F1B, 1, 1, 2);
  const auto sample = [](double seconds, double tokens) {
    return SampleCost{.llm_s = seconds, .llm_units = tokens};
  };
  const std::vector<SampleCost> samples = {sample(1, 9), sample(9, 5), sample(9, 4), sample(1, 8)};
  const auto plan = plan_pipeline(model, samples, PipelinePolicy::kTokens, {});
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  EXPECT_EQ(plan->bins, (MicrobatchBins{{0, 2}, {1, 3}}));
}

TEST(Plan, IsDeterministic) {
  Random random(5);
  const PipelineModel model = small_model(Schedule::k1F1B, 2, 2, 4);
  const std::vector<SampleCost> samples = random_samples(40, random);
  const auto first = plan_pipeline(model, samples, PipelinePolicy::kCost, {.seed = 3});
  const auto second = plan_pipeline(model, samples, PipelinePolicy::kCost, {.seed = 3});
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->bins, second->bins);
  EXPECT_EQ(first->step_s, second->step_s);
}

TEST(Plan, KeepsTheCapOnActivations) {
  Random random(11);
  const PipelineModel model = small_model(Schedule::k1F1B, 2, 2, 6);
  const std::vector<SampleCost> samples = random_samples(48, random);
  const auto free = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
  ASSERT_TRUE(free.has_value());
  const auto peak = [&](const MicrobatchBins& bins) {
    return simulate(make_step(model, microbatch_loads(samples, bins)))->peak_activation_bytes();
  };
  PipelineSearchOptions capped;
  const std::int64_t cap = peak(free->bins) * 97 / 100;
  capped.caps = {.encoder_bytes = cap, .llm_bytes = cap};
  const auto plan = plan_pipeline(model, samples, PipelinePolicy::kCost, capped);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->fits);
  EXPECT_LE(peak(plan->bins), cap);
  capped.caps.llm_bytes = 1;
  const auto hopeless = plan_pipeline(model, samples, PipelinePolicy::kCost, capped);
  ASSERT_TRUE(hopeless.has_value());
  EXPECT_FALSE(hopeless->fits);
}

TEST(Plan, ASlowReplicaGetsLess) {
  for (const auto& [encoders, replicas] : {std::pair{4, 4}, {1, 4}, {2, 4}}) {
    Random random(23);
    PipelineModel model = small_model(Schedule::k1F1B, static_cast<std::size_t>(encoders),
                                      static_cast<std::size_t>(replicas), 6);
    const std::vector<SampleCost> samples = random_samples(120, random);
    const auto unaware = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
    model.llm.slowdowns = {1, 1, 1.5, 1.5, 1, 1, 1, 1};
    const auto plan = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
    ASSERT_TRUE(unaware.has_value() && plan.has_value());
    expect_every_sample_once(plan->bins, samples.size());
    EXPECT_DOUBLE_EQ(plan->step_s, step_seconds(model, samples, plan->bins));
    EXPECT_GE(plan->step_s, plan->lower_bound_s);
    // The capacity falls from twelve thirds to eleven. A plan that ignores slowdowns is limited by
    // the slow replica, unless it is limited by the encoder.
    EXPECT_LT(plan->step_s, 1.15 * unaware->step_s);
    EXPECT_LT(plan->step_s,
              (encoders == 1 ? 1 : 0.85) * step_seconds(model, samples, unaware->bins));
  }
}

// A single replica of slowdown 2 takes twice as long, except for its transfers.
TEST(Plan, SlowdownsMultiplySecondsAlone) {
  Random random(3);
  PipelineModel model = small_model(Schedule::k1F1B, 1, 1, 4);
  model.link = {};
  const std::vector<SampleCost> samples = random_samples(12, random);
  const auto plan = plan_pipeline(model, samples, PipelinePolicy::kInOrder, {});
  model.llm.slowdowns = {2, 2};
  model.encoder.slowdowns = {2};
  EXPECT_NEAR(step_seconds(model, samples, plan->bins), 2 * plan->step_s, 1e-9 * plan->step_s);
  EXPECT_NEAR(pipeline_bound(model, samples), 2 * plan->lower_bound_s, 1e-9 * plan->step_s);
  model.llm.slowdowns = {2, 2, 2};
  EXPECT_THAT(model.validate().error().message(),
              testing::HasSubstr("3 slowdowns for 1 replica of 2 stages of the LLM"));
  model.llm.slowdowns = {0, 1};
  EXPECT_THAT(model.validate().error().message(), testing::HasSubstr("allowed are 0.01 to 100"));
}

// One of four stages is slow. Only its seconds change, and the plan is as good as the best one.
TEST(Plan, ASlowStageSlowsNoOther) {
  Random random(3);
  PipelineModel model = small_model(Schedule::k1F1B, 1, 2, 4);
  const std::vector<SampleCost> samples = random_samples(40, random);
  const auto unaware = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
  ASSERT_TRUE(unaware.has_value());
  const auto busy = [&] {
    const auto report =
        simulate(make_step(model, microbatch_loads(samples, unaware->bins))).value();
    std::vector<double> seconds;
    for (const StageReport& stage : report.stages) seconds.push_back(stage.busy_s);
    return seconds;
  };
  std::vector<double> expected = busy();  // encoder first, then two stages per replica
  model.llm.slowdowns = {1, 1, 1, 1.5};
  expected.at(4) *= 1.5;
  EXPECT_THAT(busy(), testing::Pointwise(testing::DoubleNear(1e-12), expected));

  const auto plan = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
  ASSERT_TRUE(plan.has_value());
  EXPECT_GE(plan->step_s, plan->lower_bound_s);
  EXPECT_LT(plan->step_s, 0.95 * step_seconds(model, samples, unaware->bins));
}

// In an interleaved schedule, all chunks of a stage have its slowdown; they are `stages` apart.
TEST(Plan, ChunksOfASlowStageAreSlow) {
  PipelineModel model = small_model(Schedule::kInterleaved1F1B, 1, 1, 4);
  model.llm.chunks = 2;
  model.llm.shares = {0.25, 0.25, 0.25, 0.25};
  model.llm.slowdowns = {1, 3};
  std::vector<StagePass> passes(4, {.forward_s = 1, .backward_s = 1, .weights_s = 1});
  slow_down(passes, model.llm, 0);
  std::vector<double> forward;
  for (const StagePass& pass : passes) forward.push_back(pass.forward_s);
  EXPECT_THAT(forward, testing::ElementsAre(1, 3, 1, 3));
}

TEST(Plan, WithoutEncoderStages) {
  Random random(2);
  PipelineModel model = small_model(Schedule::k1F1B, 1, 2, 4);
  model.encoder.stages = 0;
  model.encoder.shares.clear();
  model.encoder_on_llm = {0.75, 0.25};
  model.llm.shares = {0.3, 0.7};
  const std::vector<SampleCost> samples = random_samples(24, random);
  const auto plan = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  expect_every_sample_once(plan->bins, samples.size());
  EXPECT_DOUBLE_EQ(plan->step_s, step_seconds(model, samples, plan->bins));
}

TEST(Plan, TheBoundIncludesFixedSecondsOfMicrobatches) {
  PipelineModel model;
  model.microbatches = 3;
  model.llm = {.replicas = 2, .stages = 1, .shares = {1.0}, .microbatch_s = 0.5};
  model.encoder = {.replicas = 1, .stages = 1, .shares = {1.0}, .microbatch_s = 1};
  std::vector<SampleCost> samples(6, {.llm_s = 1, .llm_units = 1});
  for (std::size_t i = 0; i < 2; ++i) {
    samples[i].encoder_s = 2;
    samples[i].encoder_units = 1;
  }
  // At most four of six microbatches with a sample each hold none of the two samples with media:
  // the encoder works for four seconds and at least two microbatches. The LLM works for three
  // seconds and three microbatches per replica.
  EXPECT_NEAR(pipeline_bound(model, samples), 4 + 2, 1e-9);
  for (std::size_t i = 2; i < 4; ++i) {
    samples[i].encoder_s = 0.1;
    samples[i].encoder_units = 1;
  }
  EXPECT_NEAR(pipeline_bound(model, samples), 4.2 + 4, 1e-9);
  const auto plan = plan_pipeline(model, samples, PipelinePolicy::kCost, {.evaluations = 100});
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  EXPECT_GE(plan->step_s, plan->lower_bound_s);
}

TEST(Plan, AMicrobatchTakesAtLeastItsLaunches) {
  PipelineModel model;
  model.microbatches = 2;
  model.llm = {.shares = {1.0}, .microbatch_s = 0.25, .launches_s = 1};
  model.llm.stages = 1;
  const std::vector<SampleCost> samples{{.llm_s = 0.5, .llm_units = 1},
                                        {.llm_s = 3, .llm_units = 1}};
  EXPECT_NEAR(step_seconds(model, samples, {{0}, {1}}), 1 + 3.25, 1e-9);
  EXPECT_NEAR(pipeline_bound(model, samples), 0.75 + 3.25, 1e-6) << "a bound, which ignores them";
}

TEST(Plan, RefusesInconsistentInput) {
  Random random(1);
  PipelineModel model = small_model(Schedule::k1F1B, 1, 2, 4);
  const std::vector<SampleCost> samples = random_samples(7, random);
  const auto few = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
  ASSERT_FALSE(few.has_value());
  EXPECT_EQ(few.error().code(), ErrorCode::kInvalidArgument);
  const auto bins = order_microbatches(model, samples, {{0}, {1}}, {});
  ASSERT_FALSE(bins.has_value());
  EXPECT_THAT(bins.error().message(), testing::HasSubstr("2 microbatches for 8 slots"));
  model.llm.shares = {0.5, 0.4};
  const auto shares = plan_pipeline(model, samples, PipelinePolicy::kCost, {});
  ASSERT_FALSE(shares.has_value());
  EXPECT_THAT(shares.error().message(), testing::HasSubstr("add up to one"));
}

}  // namespace
}  // namespace isocost
