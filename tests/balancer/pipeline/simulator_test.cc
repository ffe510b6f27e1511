#include "balancer/pipeline/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include "tests/balancer/pipeline/pipeline_support.h"

namespace isocost {
namespace {

using test::equal_step;
using test::random_step;
using test::tick_by_tick;

PipelineReport run(const PipelineStep& step) {
  auto report = simulate(step);
  EXPECT_TRUE(report.has_value()) << report.error().message();
  return report ? *std::move(report) : PipelineReport{};
}

constexpr StagePass kPass = {
    .forward_s = 1, .backward_s = 1.25, .weights_s = 0.75, .activation_bytes = 10};

TEST(Schedule, AFeedingStageRunsAheadAsFarAsTheFirstStageTakesIn) {
  using testing::ElementsAre;
  EXPECT_THAT(*taken_before(Schedule::kGpipe, 3, 1, 4), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(*taken_before(Schedule::k1F1B, 1, 1, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*taken_before(Schedule::k1F1B, 3, 1, 5), ElementsAre(3, 4, 5, 5, 5));
  EXPECT_THAT(*taken_before(Schedule::kZbH1, 2, 1, 3), ElementsAre(2, 3, 3));
  EXPECT_FALSE(taken_before(Schedule::k1F1B, 2, 1, 0).has_value());
}

TEST(Pipeline, EqualMicrobatchesFollowTheClosedForms) {
  for (std::size_t stages = 1; stages <= 8; ++stages) {
    for (std::size_t m = 1; m <= 20; ++m) {
      const auto turns = static_cast<double>(m + stages - 1);
      for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B}) {
        const PipelineReport report = run(equal_step(schedule, 1, stages, 1, m, kPass));
        EXPECT_DOUBLE_EQ(report.step_s, turns * 3) << stages << " stages, " << m;
        EXPECT_NEAR(report.idle_fraction, 1 - static_cast<double>(m) / turns, 1e-12);
      }
    }
  }
}

// Narayanan et al., SC 2021: the bubble shrinks by the number of chunks.
TEST(Pipeline, InterleavingDividesTheBubble) {
  for (std::size_t stages = 2; stages <= 8; ++stages) {
    for (const std::size_t chunks : {2U, 3U, 4U}) {
      for (std::size_t groups = 1; groups <= 3; ++groups) {
        const std::size_t m = groups * stages;
        const PipelineReport report =
            run(equal_step(Schedule::kInterleaved1F1B, 1, stages, chunks, m, kPass));
        EXPECT_DOUBLE_EQ(report.step_s, static_cast<double>(m * chunks + stages - 1) * 3)
            << stages << " stages, " << chunks << " chunks, " << m;
      }
    }
  }
}

// Qi et al., ICLR 2024: a bubble of (P - 1)(F + B - W), memory as in 1F1B.
TEST(Pipeline, SplitBackwardPassesFillTheBubble) {
  constexpr StagePass kThirds = {
      .forward_s = 1, .backward_s = 1, .weights_s = 1, .activation_bytes = 10};
  for (std::size_t stages = 1; stages <= 8; ++stages) {
    for (std::size_t m = 2 * stages; m <= 20; ++m) {
      const PipelineReport report = run(equal_step(Schedule::kZbH1, 1, stages, 1, m, kThirds));
      EXPECT_DOUBLE_EQ(report.step_s,
                       3.0 * static_cast<double>(m) + static_cast<double>(stages - 1))
          << stages << " stages, " << m;
      for (const StageReport& stage : report.stages) {
        EXPECT_EQ(stage.peak_activation_bytes, static_cast<std::int64_t>(10 * stages));
      }
    }
  }
}

TEST(Pipeline, ActivationsInFlight) {
  constexpr std::size_t kStages = 4;
  for (const std::size_t m : {2U, 4U, 9U}) {
    const PipelineReport one = run(equal_step(Schedule::k1F1B, 1, kStages, 1, m, kPass));
    const PipelineReport all = run(equal_step(Schedule::kGpipe, 1, kStages, 1, m, kPass));
    for (std::size_t s = 0; s < kStages; ++s) {
      EXPECT_EQ(one.stages[s].peak_activation_bytes,
                static_cast<std::int64_t>(10 * std::min(m, kStages - s)));
      EXPECT_EQ(all.stages[s].peak_activation_bytes, static_cast<std::int64_t>(10 * m));
    }
  }
}

TEST(Pipeline, AnEncoderWithItsOwnRanksPrecedesTheLlm) {
  PipelineStep joined = equal_step(Schedule::k1F1B, 2, 5, 1, 7, kPass);
  PipelineStep apart = equal_step(Schedule::k1F1B, 2, 3, 1, 7, kPass);
  apart.encoder.stages = 2;
  apart.encoder.passes.assign(2, std::vector<StagePass>(14, kPass));
  apart.feeds = coupled_feeds(2, 2, 7);
  for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B, Schedule::kZbH1}) {
    joined.schedule = apart.schedule = schedule;
    const PipelineReport a = run(joined);
    const PipelineReport b = run(apart);
    EXPECT_DOUBLE_EQ(a.step_s, b.step_s);
    EXPECT_DOUBLE_EQ(a.idle_fraction, b.idle_fraction);
    EXPECT_EQ(a.peak_activation_bytes(), b.peak_activation_bytes());
  }
}

TEST(Pipeline, TransfersAndReductionsTakeTime) {
  PipelineStep step = equal_step(Schedule::kGpipe, 2, 4, 1, 3, kPass);
  const double alone = run(step).step_s;
  step.link = {.latency_s = 0.5, .bytes_per_s = 100};
  for (auto& passes : step.llm.passes) {
    for (StagePass& pass : passes) pass.output_bytes = 200;
  }
  EXPECT_DOUBLE_EQ(run(step).step_s, alone + 2 * 3 * 2.5);
  step.llm.transfers.reduce.seconds = 4;
  EXPECT_DOUBLE_EQ(run(step).step_s, alone + 2 * 3 * 2.5 + 4);
}

// Simulates replicas of one stage layer by layer: a layer of the first pass waits for its weights,
// and its gradients are reduced once the last passes of all replicas have computed it.
double layer_by_layer(const PipelineStep& step) {
  const auto& [gather, reduce] = step.llm.transfers;
  const auto layers = static_cast<std::size_t>(gather.layers);
  std::vector<double> computed(layers, 0.0);
  for (const auto& passes : step.llm.passes) {
    double now = 0;
    for (std::size_t layer = 1; layer <= layers; ++layer) {
      const double arrived = static_cast<double>(layer) * gather.seconds / gather.layers;
      now = std::max(now, arrived) + passes.front().forward_s / gather.layers;
    }
    for (std::size_t m = 1; m < passes.size(); ++m) now += passes[m].forward_s;  // GPipe
    for (std::size_t m = 0; m + 1 < passes.size(); ++m) now += passes[m].backward_s;
    for (double& of_layer : computed) {
      now += passes.back().backward_s / reduce.layers;
      of_layer = std::max(of_layer, now);
    }
  }
  double link = 0;
  for (const double of_layer : computed) {
    link = std::max(link, of_layer) + reduce.seconds / reduce.layers;
  }
  return link;
}

TEST(Pipeline, TransfersOverlapWithPassesLayerByLayer) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    PipelineStep step = equal_step(Schedule::kGpipe, 1 + random.below(3), 1, 1, 3, kPass);
    for (auto& passes : step.llm.passes) {
      for (StagePass& pass : passes)
        pass = {.forward_s = random.uniform(), .backward_s = random.uniform()};
    }
    const auto layers = static_cast<double>(1 + random.below(6));
    step.llm.transfers.gather = {.seconds = 3 * random.uniform(), .layers = layers};
    step.llm.transfers.reduce = {.seconds = 3 * random.uniform(), .layers = layers};
    const PipelineReport report = run(step);
    ASSERT_NEAR(report.step_s, layer_by_layer(step), 1e-9) << "seed " << seed;
    double finish = 0;
    for (const StageReport& stage : report.stages) finish = std::max(finish, stage.finish_s);
    ASSERT_NEAR(finish + report.stages[0].reduce_s, report.step_s, 1e-9);
  }
}

TEST(Pipeline, RefusesTransfersOfLessThanALayer) {
  PipelineStep step = equal_step(Schedule::kGpipe, 1, 1, 1, 1, kPass);
  step.llm.transfers.reduce = {.seconds = 1, .layers = 0.5};
  EXPECT_THAT(simulate(step).error().message(), testing::HasSubstr("must be at least 1"));
}

// One encoder replica feeds two LLM replicas: its slots alternate between them.
TEST(Pipeline, OneEncoderFeedsTwoReplicas) {
  PipelineStep step = equal_step(Schedule::k1F1B, 2, 1, 1, 3, {.forward_s = 2, .backward_s = 4});
  step.encoder.stages = 1;
  step.encoder.passes = {std::vector<StagePass>(6, {.forward_s = 1, .backward_s = 2})};
  step.feeds = coupled_feeds(1, 2, 3);
  const PipelineReport report = run(step);
  // The first replica starts at 1 and has three microbatches of 6 seconds; both replicas' last
  // backward passes are then left to the encoder, one after the other.
  EXPECT_DOUBLE_EQ(report.step_s, 1 + 18 + 2 + 2);
  EXPECT_DOUBLE_EQ(report.stages[0].busy_s, 18);
}

TEST(Pipeline, AgreesWithTheTickingSimulator) {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    Random random(seed);
    PipelineStep step = random_step(random);
    step.encoder.transfers = step.llm.transfers = {};
    const PipelineReport report = run(step);
    ASSERT_EQ(report.step_s, tick_by_tick(step, report)) << "seed " << seed;
  }
}

TEST(Pipeline, StagesRunOnePassAtATimeAndEveryPassOnce) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    const PipelineStep step = random_step(random);
    const PipelineReport report = run(step);
    std::vector<double> free_at(report.stages.size(), 0);
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, PassKind>> seen;
    for (const PipelineEvent& event : report.events) {
      EXPECT_GE(event.start_s, free_at[event.device]);
      free_at[event.device] = event.end_s;
      EXPECT_TRUE(
          seen.emplace(event.device, event.pass.slot, event.pass.chunk, event.pass.kind).second);
    }
    const std::size_t kinds = step.schedule == Schedule::kZbH1 ? 3 : 2;
    std::size_t passes = 0;
    for (const ModulePipeline* module : {&step.encoder, &step.llm}) {
      for (const auto& replica : module->passes) passes += replica.size();
    }
    ASSERT_EQ(seen.size(), kinds * passes) << "seed " << seed;
    const double busiest =
        std::max_element(report.stages.begin(), report.stages.end(), [](auto& a, auto& b) {
          return a.busy_s < b.busy_s;
        })->busy_s;
    EXPECT_GE(report.step_s, busiest);
  }
}

// Activations recomputed from the events equal the reported peaks.
TEST(Pipeline, PeakActivationsFollowFromTheEvents) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const PipelineStep step = random_step(random);
    const PipelineReport report = run(step);
    const PassKind freeing =
        step.schedule == Schedule::kZbH1 ? PassKind::kWeights : PassKind::kBackward;
    for (std::uint32_t d = 0; d < report.stages.size(); ++d) {
      const StageReport& at = report.stages[d];
      const ModulePipeline& module = at.encoder ? step.encoder : step.llm;
      std::int64_t held = 0;
      std::int64_t peak = 0;
      for (const PipelineEvent& event : report.events) {
        if (event.device != d) continue;
        const std::size_t chunk = event.pass.chunk * module.stages + at.stage;
        const StagePass& pass =
            module.passes[at.replica][event.pass.slot * module.model_chunks() + chunk];
        if (event.pass.kind == PassKind::kForward) held += pass.activation_bytes;
        peak = std::max(peak, held + pass.working_bytes);
        if (event.pass.kind == freeing) held -= pass.activation_bytes;
      }
      EXPECT_EQ(held, 0);
      ASSERT_EQ(peak, at.peak_activation_bytes) << "seed " << seed;
    }
  }
}

TEST(Pipeline, SimulationIsDeterministic) {
  Random random(7);
  const PipelineStep step = random_step(random);
  const PipelineReport first = run(step);
  const PipelineReport second = run(step);
  EXPECT_EQ(first.step_s, second.step_s);
  EXPECT_EQ(first.events.size(), second.events.size());
}

struct Refused {
  std::string name;
  void (*spoil)(PipelineStep&);
  std::string message;
};

class Refusals : public testing::TestWithParam<Refused> {};

TEST_P(Refusals, NamesWhatIsWrong) {
  PipelineStep step = equal_step(Schedule::k1F1B, 2, 2, 1, 8, kPass);
  step.encoder.stages = 1;
  step.encoder.passes.assign(2, std::vector<StagePass>(8, kPass));
  step.feeds = coupled_feeds(2, 2, 8);
  ASSERT_TRUE(simulate(step).has_value());
  GetParam().spoil(step);
  const auto report = simulate(step);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(report.error().message(), testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Steps, Refusals,
    testing::Values(
        Refused{"no_stages", [](PipelineStep& s) { s.llm.stages = 0; }, "no stages"},
        Refused{"no_replicas", [](PipelineStep& s) { s.llm.passes.clear(); }, "no replicas"},
        Refused{"no_microbatches", [](PipelineStep& s) { s.llm.passes[0].clear(); },
                "no microbatches"},
        Refused{"ragged", [](PipelineStep& s) { s.llm.passes[0].pop_back(); }, "fill its stages"},
        Refused{"uneven", [](PipelineStep& s) { s.llm.passes[0].resize(2); },
                "differ in microbatches"},
        Refused{"chunks",
                [](PipelineStep& s) {
                  s.llm.chunks = 2;
                  s.llm.stages = 1;
                },
                "one chunk per stage"},
        Refused{"negative", [](PipelineStep& s) { s.llm.passes[1][2].forward_s = -1; },
                "not negative"},
        Refused{"nan",
                [](PipelineStep& s) {
                  s.encoder.passes[1][2].weights_s = std::numeric_limits<double>::quiet_NaN();
                },
                "finite"},
        Refused{"feed", [](PipelineStep& s) { s.feeds[1].slot = 9; }, "feed 1"},
        Refused{"unfed", [](PipelineStep& s) { s.feeds.pop_back(); }, "feeds nothing"},
        Refused{"no_encoder", [](PipelineStep& s) { s.encoder.stages = 0; }, "without an encoder"},
        Refused{"too_late",
                [](PipelineStep& s) {
                  for (Feed& f : s.feeds) {
                    if (f.slot > 0) f.microbatch = f.slot == 1 ? 7 : f.slot - 1;
                  }
                },
                "waits forever"}),
    [](const auto& instance) { return instance.param.name; });

TEST(Pipeline, InterleavingNeedsWholeGroups) {
  const auto report = simulate(equal_step(Schedule::kInterleaved1F1B, 1, 4, 2, 6, kPass));
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message(), testing::HasSubstr("multiple of the stages (4)"));
}

TEST(Schedule, NamesReadBack) {
  for (const Schedule schedule :
       {Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved1F1B, Schedule::kZbH1}) {
    EXPECT_EQ(schedule_from_name(schedule_name(schedule)), schedule);
  }
  EXPECT_FALSE(schedule_from_name("2f2b").has_value());
}

}  // namespace
}  // namespace isocost
