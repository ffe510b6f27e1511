#include "loader/served_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "balancer/order.h"
#include "balancer/sample_prices.h"
#include "base/random.h"
#include "loader/config.h"
#include "loader/planner.h"
#include "tests/loader/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// Two LLM replicas of two stages and two tensor ranks behind two encoder ranks.
class ServedLayoutTest : public testing::Test {
 protected:
  void SetUp() override {
    layout_.encoder = {1, 1, 2};
    layout_.llm = {2, 2, 2};
    layout_.microbatches = 6;
    options_.layout = scratch_ / "layout.json";
    options_.ranks = 2;
    options_.microbatches = 6;
    options_.global_batch = 48;
    write();
  }
  void write() const { write_file(options_.layout, layout_.to_json()); }
  Result<std::unique_ptr<const ServedLayout>> create() const {
    return ServedLayout::create(options_, CostProfile::stated_default(), {});
  }
  std::string refusal() const {
    const auto made = create();
    return made ? "accepted" : made.error().message();
  }

  // Captions, pictures and now and then a video.
  static PlanInput input(std::size_t samples) {
    Random random(9);
    PlanInput input;
    for (std::size_t i = 0; i < samples; ++i) {
      const auto patches = static_cast<std::int64_t>(
          random.below(9) == 0 ? 8000 + random.below(8000) : random.below(2000));
      Load load =
          load_of_counts(patches, patches / 4 + 20 + static_cast<std::int64_t>(random.below(300)));
      load.tensor_bytes = 588 * patches + 1000;
      load.label_tokens = 20;
      input.loads.push_back(load);
      input.weights.push_back(1.0F);
      input.ids.push_back(i);
    }
    return input;
  }
  StepPlan plan(const PlanInput& input, const ServedLayout* layout) const {
    return plan_step(input, model_, options_, layout).value();
  }
  // The step that these microbatches make in the layout.
  double simulated(const StepPlan& plan, const PlanInput& input, const ServedLayout& layout) const {
    std::vector<PipelineLoad> loads;
    for (const PlannedMicrobatch& place : plan.places) {
      PipelineLoad& sum = loads.emplace_back();
      for (const PlannedSample& sample : place.samples) {
        const Load& load = input.loads[sample.slot];
        sum += layout.price(model_.predict_sample(load), load);
      }
    }
    return simulate(make_step(layout.pipeline({}), loads)).value().step_s;
  }

  ScratchDirectory scratch_;
  Layout layout_;
  NodeOptions options_;
  CostModel model_{CostProfile::stated_default(), {}};
};

TEST_F(ServedLayoutTest, WithoutAFileThereIsNone) {
  options_.layout.clear();
  EXPECT_EQ(create().value(), nullptr);
}

TEST_F(ServedLayoutTest, PlansForThePipeline) {
  const auto layout = create().value();
  ASSERT_TRUE(layout->pipelined());
  const PlanInput input = this->input(48);
  const StepPlan planned = plan(input, layout.get());
  EXPECT_EQ(planned.microbatches, 6U);
  std::vector<int> seen(48);
  for (const PlannedMicrobatch& place : planned.places) {
    EXPECT_FALSE(place.samples.empty());
    for (const PlannedSample& sample : place.samples) ++seen.at(sample.slot);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 48);
  // Makespan and bound are the simulated step's, and it is shorter than what is planned for ranks
  // that run one module after the other, in any order.
  EXPECT_NEAR(planned.makespan_s, simulated(planned, input, *layout), 1e-9 * planned.makespan_s);
  EXPECT_GE(planned.makespan_s, planned.lower_bound_s);
  EXPECT_LT(planned.makespan_s, 0.97 * simulated(plan(input, nullptr), input, *layout));
  EXPECT_EQ(plan(input, layout.get()).hash, planned.hash);
  options_.balance = BalancePolicy::kNone;
  EXPECT_EQ(plan(input, layout.get()).hash, plan(input, nullptr).hash);
  EXPECT_GT(plan(input, layout.get()).makespan_s, planned.makespan_s);
}

TEST_F(ServedLayoutTest, ASmallerTailAndACapAreKept) {
  const auto layout = create().value();
  const StepPlan tail = plan(input(11), layout.get());
  EXPECT_EQ(tail.microbatches, 2U);
  EXPECT_EQ(tail.places.size(), 4U);
  EXPECT_EQ(plan(input(1), layout.get()).places.size(), 2U);

  const PlanInput whole = input(48);
  std::int64_t largest = 0;
  std::int64_t total = 0;
  for (const Load& load : whole.loads) {
    largest = std::max(largest, load.tensor_bytes);
    total += load.tensor_bytes;
  }
  options_.microbatch_memory = std::max(largest, total / 12 * 11 / 10);
  const StepPlan capped = plan(whole, layout.get());
  for (const PlannedMicrobatch& place : capped.places) {
    EXPECT_LE(place.load.tensor_bytes, options_.microbatch_memory);
  }
  EXPECT_NEAR(capped.makespan_s, simulated(capped, whole, *layout), 1e-9 * capped.makespan_s);
}

TEST_F(ServedLayoutTest, DataParallelOnlyIsPlannedAsWithoutALayout) {
  layout_.encoder_place = EncoderPlace::kLlmRanks;
  layout_.llm = layout_.encoder = {2, 1, 2};
  write();
  const auto layout = create().value();
  EXPECT_FALSE(layout->pipelined());
  const PlanInput input = this->input(48);
  EXPECT_EQ(plan(input, layout.get()).hash, plan(input, nullptr).hash);
}

TEST_F(ServedLayoutTest, MeasuredSecondsBecomeThoseOfOneRank) {
  const auto layout = create().value();
  EXPECT_EQ(layout->as_one_rank({0.5, 0.25, 1.0}, {}), (ModuleSeconds{0.5, 0.25, 2.0}));
  EXPECT_EQ(layout->as_one_rank({-1, 0.25, -1}, {}), (ModuleSeconds{-1, 0.25, -1}));
  // What tensor ranks pay for their reductions is priced again when samples are: here it goes.
  Load load;
  load[Module::kVision].add_sequence(1024);
  load[Module::kLlm].add_sequence(2000);
  const ModuleSeconds one_rank{0.5, 0, 2.0};
  const PipelineLoad spread = layout->price(one_rank, load);
  const ModuleSeconds back = layout->as_one_rank({spread.encoder_s, -1, spread.llm_s}, load);
  EXPECT_NEAR(back[0], 0.5, 1e-9);
  EXPECT_NEAR(back[2], 2.0, 1e-9);
}

TEST_F(ServedLayoutTest, ASlowReplicaGetsLess) {
  const auto layout = create().value();
  const PlanInput input = this->input(96);
  const auto seconds_of_last = [&](const PipelineModel& model) {
    std::vector<PipelineLoad> samples;
    for (const Load& load : input.loads) {
      samples.push_back(layout->price(model_.predict_sample(load), load));
    }
    const auto plan = plan_pipeline(model, samples, PipelinePolicy::kIsocost, {.evaluations = 500});
    double seconds = 0;
    for (std::size_t m = 0; m < model.microbatches; ++m) {
      for (const std::uint32_t i :
           plan->bins.at((model.llm.replicas - 1) * model.microbatches + m)) {
        seconds += samples[i].llm_s;
      }
    }
    return seconds;
  };
  std::vector<double> speeds(layout->pipeline({}).llm.replicas, 1);
  speeds.back() = 1.5;
  EXPECT_LT(seconds_of_last(layout->pipeline(speeds)), 0.9 * seconds_of_last(layout->pipeline({})));
}

TEST_F(ServedLayoutTest, RefusesWhatDoesNotFit) {
  const std::string file = options_.layout.string();
  options_.ranks = 3;
  EXPECT_EQ(refusal(),
            "ranks = 3: layout " + file + " has 2 LLM replicas: leave ranks out, or the layout");
  options_.ranks = 2;
  options_.microbatches = 4;
  EXPECT_EQ(refusal(), "microbatches = 4: layout " + file +
                           " has 6 microbatches a replica: leave microbatches out, or the layout");
  options_.microbatches = 6;
  layout_.llm.tensor = 3;  // of 28 heads
  write();
  EXPECT_THAT(refusal(), HasSubstr(file));
  EXPECT_THAT(refusal(), HasSubstr("heads"));
  write_file(options_.layout, "{}");
  EXPECT_THAT(refusal(), HasSubstr(file));
  options_.layout = scratch_ / "none.json";
  EXPECT_EQ(create().error().code(), ErrorCode::kNotFound);
}

TEST_F(ServedLayoutTest, SettingsStandOnTheLayout) {
  const std::string file = options_.layout.string();
  const auto made = make_options([&](NodeOptions& options) {
    return apply_toml(options, "global_batch = 96\nlayout = '" + file + "'\n", "node.toml");
  });
  EXPECT_EQ(made->ranks, 2);
  EXPECT_EQ(made->microbatches, 6);
  EXPECT_EQ(made->global_batch, 96);
  // What is set otherwise stays visible, and is refused where the node is made.
  const auto other = make_options([&](NodeOptions& options) {
    return apply_toml(options, "ranks = 4\nlayout = '" + file + "'\n", "node.toml");
  });
  EXPECT_EQ(other->ranks, 4);
  EXPECT_EQ(other->microbatches, 6);
  const auto missing = make_options([](NodeOptions& options) {
    return apply_toml(options, "layout = 'no/such.json'", "node.toml");
  });
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace isocost
