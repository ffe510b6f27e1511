#include "loader/plan/served_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/random.h"
#include "costmodel/sample_cost.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/planner.h"
#include "tests/balancer/pipeline/pipeline_support.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// Two LLM replicas of two stages and two tensor ranks after two encoder ranks.
class ServedLayoutTest : public testing::Test {
 protected:
  void SetUp() override {
    layout_.encoder = {1, 1, 2};
    layout_.llm = {2, 2, 2};
    layout_.microbatches = 6;
    options_.layout_file = "layout.json";
    options_.ranks = 2;
    options_.microbatches = 6;
    options_.global_batch_size = 48;
    use();
  }
  void use() { options_.layout = std::make_shared<const Layout>(layout_); }
  Result<std::unique_ptr<const ServedLayout>> create() const {
    return ServedLayout::create(options_, CostProfile::stated_default(), {});
  }
  std::string refusal() const {
    const auto made = create();
    const std::string reason = made ? "accepted" : made.error().message();
    const Status early = check_layout(options_, CostProfile::stated_default());
    EXPECT_EQ(early ? "accepted" : early.error().message(), reason) << "before the data are read";
    return reason;
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
  static std::vector<std::vector<std::uint32_t>> slots_of(const StepPlan& plan) {
    std::vector<std::vector<std::uint32_t>> bins;
    for (const PlannedMicrobatch& bin : plan.bins) {
      bins.emplace_back();
      for (const PlannedSample& sample : bin.samples) bins.back().push_back(sample.index);
    }
    return bins;
  }
  std::vector<SampleCost> prices(const PlanInput& input, const ServedLayout& layout) const {
    std::vector<SampleCost> samples;
    for (const Load& load : input.loads) {
      samples.push_back(layout.price(model_.predict_sample(load), load));
    }
    return samples;
  }
  static EncoderSlots encoder_slots(const StepPlan& plan) {
    EncoderSlots slots;
    for (const auto& replica : plan.encoder) {
      slots.emplace_back();
      for (const PlannedMicrobatch& microbatch : replica) {
        slots.back().emplace_back();
        for (const PlannedSample& sample : microbatch.samples) {
          slots.back().back().push_back(sample.index);
        }
      }
    }
    return slots;
  }
  // The step that these microbatches make in the layout, encoder and LLM coupled.
  double simulated(const StepPlan& plan, const PlanInput& input, const ServedLayout& layout) const {
    std::vector<SampleCost> loads;
    for (const PlannedMicrobatch& bin : plan.bins) {
      SampleCost& sum = loads.emplace_back();
      for (const PlannedSample& sample : bin.samples) {
        const Load& load = input.loads[sample.index];
        sum += layout.price(model_.predict_sample(load), load);
      }
    }
    return simulate(make_step(layout.pipeline({}), loads)).value().step_s;
  }

  Layout layout_;
  PlanOptions options_;
  CostModel model_{CostProfile::stated_default(), {}};
};

TEST_F(ServedLayoutTest, WithoutALayoutThereIsNone) {
  options_.layout = nullptr;
  EXPECT_EQ(create().value(), nullptr);
}

TEST_F(ServedLayoutTest, PlansForThePipeline) {
  const auto layout = create().value();
  ASSERT_TRUE(layout->pipelined());
  const PlanInput input = this->input(48);
  const StepPlan planned = plan(input, layout.get());
  EXPECT_EQ(planned.microbatches, 6U);
  std::vector<int> seen(48);
  for (const PlannedMicrobatch& bin : planned.bins) {
    EXPECT_FALSE(bin.samples.empty());
    for (const PlannedSample& sample : bin.samples) ++seen.at(sample.index);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 48);
  // Makespan and bound are the simulated step's, and it is shorter than what is planned for ranks
  // that run one module after the other, in any order.
  EXPECT_NEAR(planned.makespan_s, simulated(planned, input, *layout), 1e-9 * planned.makespan_s);
  EXPECT_GE(planned.makespan_s, planned.lower_bound_s);
  EXPECT_LT(planned.makespan_s, 0.97 * simulated(plan(input, nullptr), input, *layout));
  EXPECT_EQ(plan(input, layout.get()).hash, planned.hash);
  options_.balance = BalancePolicy::kInOrder;
  EXPECT_EQ(slots_of(plan(input, layout.get())), slots_of(plan(input, nullptr)));
  EXPECT_GT(plan(input, layout.get()).makespan_s, planned.makespan_s);
  options_.balance = BalancePolicy::kTokens;
  const StepPlan by_tokens = plan(input, layout.get());
  EXPECT_NEAR(by_tokens.makespan_s, simulated(by_tokens, input, *layout),
              1e-9 * by_tokens.makespan_s);
  EXPECT_GT(by_tokens.makespan_s, planned.makespan_s);
}

TEST_F(ServedLayoutTest, ASmallerTailAndACapAreKept) {
  const auto layout = create().value();
  const StepPlan tail = plan(input(11), layout.get());
  EXPECT_EQ(tail.microbatches, 2U);
  EXPECT_EQ(tail.bins.size(), 4U);
  EXPECT_EQ(plan(input(1), layout.get()).bins.size(), 2U);

  const PlanInput whole = input(48);
  std::int64_t largest = 0;
  std::int64_t total = 0;
  for (const Load& load : whole.loads) {
    largest = std::max(largest, load.tensor_bytes);
    total += load.tensor_bytes;
  }
  options_.microbatch_memory = std::max(largest, total / 12 * 11 / 10);
  const StepPlan capped = plan(whole, layout.get());
  for (const PlannedMicrobatch& bin : capped.bins) {
    EXPECT_LE(bin.load.tensor_bytes, options_.microbatch_memory);
  }
  EXPECT_NEAR(capped.makespan_s, simulated(capped, whole, *layout), 1e-9 * capped.makespan_s);
}

// In every microbatch of the LLM and of the encoder.
void expect_within(const StepPlan& plan, const PlanOptions& options) {
  const auto limits = MicrobatchLimits::create(options, CostProfile::stated_default()).value();
  for (const PlannedMicrobatch& bin : plan.bins) {
    EXPECT_EQ(limits.why_too_large(bin.run_load).value_or(""), "");
  }
  for (const auto& replica : plan.encoder) {
    for (const PlannedMicrobatch& bin : replica) {
      EXPECT_LE(bin.run_load[CostModule::kVision].units, options.max_vision_tokens);
    }
  }
}

TEST_F(ServedLayoutTest, LimitsHoldInAPipelineOrTheStepIsRefusedWithTheNumbers) {
  const PlanInput input = this->input(48);
  Load total;
  Load largest;
  for (const Load& load : input.loads) {
    total += load;
    for (const CostModule module : {CostModule::kVision, CostModule::kLlm}) {
      largest[module].units = std::max(largest[module].units, load[module].units);
    }
  }
  // Room for twelve microbatches in all, and for the largest sample alone.
  const auto tight = [&](CostModule module, double room) {
    const double mean = static_cast<double>(total[module].units) / 12;
    return std::max(largest[module].units, static_cast<std::int64_t>(mean * room));
  };
  for (const std::size_t encoders : {1, 2, 3}) {
    layout_.encoder.data = encoders;
    use();
    const auto layout = create().value();
    for (const double room : {1.05, 1.3, 3.0}) {
      options_.max_tokens = tight(CostModule::kLlm, room);
      options_.max_vision_tokens = tight(CostModule::kVision, room);
      const StepPlan planned = plan(input, layout.get());
      EXPECT_EQ(planned.microbatches, 6U);
      expect_within(planned, options_);
      EXPECT_NEAR(planned.makespan_s, simulated(planned, input, *layout),
                  1e-9 * planned.makespan_s);
    }
  }
  options_.max_vision_tokens = 0;
  options_.max_tokens = 1'900;
  PlanInput equal = this->input(48);
  for (Load& load : equal.loads) load = load_of_counts(0, 500);
  const auto refused = plan_step(equal, model_, options_, create().value().get());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("a step of 48 samples does not fit: they have 24,000 LLM tokens, and 12 "
                        "microbatches of at most 1,900 (max_tokens) hold 22,800, 1,200 too many; "
                        "raise max_tokens, give more microbatches"));
}

TEST_F(ServedLayoutTest, ASmallerTailHasAsManyMicrobatchesAsItsLimitsNeed) {
  const auto layout = create().value();
  PlanInput tail = this->input(11);
  for (Load& load : tail.loads) load = load_of_counts(0, 900);
  EXPECT_EQ(plan(tail, layout.get()).microbatches, 2U);
  options_.max_tokens = 2'000;
  const StepPlan limited = plan(tail, layout.get());
  EXPECT_EQ(limited.microbatches, 3U);
  expect_within(limited, options_);
  options_.max_tokens = 1'000;  // one each, which eleven samples of two replicas have no room for
  EXPECT_EQ(plan_step(tail, model_, options_, layout.get()).error().code(),
            ErrorCode::kResourceExhausted);
}

TEST_F(ServedLayoutTest, LimitsOfAPaddedPipelineCountPadding) {
  const auto layout = create().value();
  PlanInput input = this->input(48);
  for (std::size_t i = 0; i < 48; ++i) {
    input.loads[i] = load_of_counts(0, i % 4 == 0 ? 1'000 : 10);
  }
  CostModel::Options padded;
  padded.padded.back() = true;
  const CostModel pads(CostProfile::stated_default(), padded);
  options_.max_tokens = 3'000;  // four of 1,000 tokens each would be 4,000
  const auto refused = plan_step(input, pads, options_, layout.get());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(plan_step(input, model_, options_, layout.get()));
  options_.max_tokens = 48'000;
  const auto roomy = plan_step(input, pads, options_, layout.get());
  ASSERT_TRUE(roomy);
  expect_within(*roomy, options_);
}

// Every sample's encoder work once for each place in an LLM microbatch, in the microbatch that
// feeds it, and both sides of each route name each other.
void expect_routes_to_meet(const StepPlan& plan, const PlanInput& input) {
  std::size_t routes = 0;
  for (std::uint32_t e = 0; e < plan.encoder.size(); ++e) {
    for (std::uint32_t k = 0; k < plan.encoder[e].size(); ++k) {
      const PlannedMicrobatch& from = plan.encoder[e][k];
      for (const Route& route : from.routes) {
        const PlannedMicrobatch& to = plan.bin(route.replica, route.microbatch);
        const auto met = std::find_if(to.routes.begin(), to.routes.end(), [&](const Route& back) {
          return back.replica == e && back.microbatch == k && back.module == route.module &&
                 back.peer_first_unit == route.first_unit &&
                 back.first_unit == route.peer_first_unit;
        });
        ASSERT_NE(met, to.routes.end());
        EXPECT_EQ(met->units, route.units);
        EXPECT_EQ(to.samples[met->sample].index, from.samples[route.sample].index);
        const Load& load = input.loads[from.samples[route.sample].index];
        EXPECT_EQ(route.units, load[route.module].units);
        EXPECT_LE(route.first_unit + route.units, from.load[route.module].units);
        ++routes;
      }
    }
  }
  std::size_t wanted = 0;
  for (const PlannedMicrobatch& bin : plan.bins) {
    wanted += bin.routes.size();
    for (const PlannedSample& sample : bin.samples) {
      const Load& load = input.loads[sample.index];
      routes -= load[CostModule::kVision].units > 0 ? 1 : 0;
      routes -= load[CostModule::kAudio].units > 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(routes, 0U);
  EXPECT_GT(wanted, 0U);
}

TEST_F(ServedLayoutTest, EncoderAndLlmTablesMeet) {
  for (const std::size_t encoders : {1, 2, 3, 5}) {
    layout_.encoder.data = encoders;
    use();
    const auto layout = create().value();
    for (const std::size_t samples : {48, 11, 3, 1}) {  // whole, tails, and repeats of no weight
      PlanInput input = this->input(samples);
      input.loads[0][CostModule::kVision] = {};  // only text
      if (samples > 1) input.loads[1][CostModule::kAudio].add_sequence(750);
      const StepPlan planned = plan(input, layout.get());
      ASSERT_EQ(planned.encoder.size(), encoders);
      for (const auto& replica : planned.encoder) EXPECT_FALSE(replica.empty());
      if (samples > 1) expect_routes_to_meet(planned, input);
    }
  }
}

// The encoder's work may be divided on its own if the modules differ in replicas. The makespan is
// that of the step that encoder and LLM make of what they are given, and no coupled plan's is less.
TEST_F(ServedLayoutTest, UnlikeModulesAreDividedApartWhereThatIsFaster) {
  layout_.llm.pipeline = 7;
  layout_.microbatches = 12;
  options_.microbatches = 12;
  options_.global_batch_size = 96;
  std::size_t apart = 0;
  for (const std::size_t encoders : {1, 3, 4, 5}) {
    SCOPED_TRACE(encoders);
    layout_.encoder.data = encoders;
    use();
    const auto layout = create().value();
    PlanInput input = this->input(96);
    input.loads[0][CostModule::kVision] = {};  // only text
    const StepPlan planned = plan(input, layout.get());
    expect_routes_to_meet(planned, input);
    EXPECT_EQ(plan(input, layout.get()).hash, planned.hash);
    const std::vector<SampleCost> samples = prices(input, *layout);
    const PipelineModel model = layout->pipeline({});
    const double coupled = simulated(planned, input, *layout);
    const EncoderSlots slots = encoder_slots(planned);
    const double decoupled =
        test::slots_fault(model, samples, slots_of(planned), slots).empty()
            ? simulate(make_step(model, samples, slots_of(planned), slots)).value().step_s
            : coupled;
    EXPECT_NEAR(planned.makespan_s, std::min(coupled, decoupled), 1e-9 * coupled);
    const auto alone = plan_pipeline(model, samples, PipelinePolicy::kCost,
                                     {.evaluations = 8'000, .caps = layout->activation_caps()});
    EXPECT_LE(planned.makespan_s, alone.value().step_s);
    apart += planned.makespan_s < 0.99 * alone.value().step_s ? 1 : 0;
  }
  EXPECT_GT(apart, 0U);
}

TEST_F(ServedLayoutTest, DataParallelOnlyIsPlannedAsWithoutALayout) {
  layout_.encoder_place = EncoderPlacement::kLlmRanks;
  layout_.llm = layout_.encoder = {2, 1, 2};
  use();
  const auto layout = create().value();
  EXPECT_FALSE(layout->pipelined());
  const PlanInput input = this->input(48);
  EXPECT_EQ(plan(input, layout.get()).hash, plan(input, nullptr).hash);
}

TEST_F(ServedLayoutTest, MeasuredSecondsBecomeThoseOfOneRank) {
  const auto layout = create().value();
  // Receivers: two of the encoder, then two LLM stages of two replicas. A stage does its share of
  // its module, and of no other.
  const Receiver& encoder = layout->receivers()[0];
  const Receiver& first = layout->receivers()[2];
  const double half = first.work.shares[2];
  EXPECT_EQ(encoder.as_one_rank({0.5, 0.25, 1.0}, {}), (ModuleSeconds{0.5, 0.25, -1}));
  EXPECT_EQ(first.as_one_rank({0.5, 0.25, half}, {}), (ModuleSeconds{-1, -1, 2.0}));
  EXPECT_EQ(encoder.as_one_rank({-1, 0.25, -1}, {}), (ModuleSeconds{-1, 0.25, -1}));
  // A time that was not measured stays so, whatever the stage's share.
  EXPECT_EQ(first.as_one_rank({-1, -1, -1}, {}), (ModuleSeconds{-1, -1, -1}));
  // The price of a sample adds the cost of the tensor ranks' reductions, so it is taken out here.
  Load load;
  load[CostModule::kVision].add_sequence(1024);
  load[CostModule::kLlm].add_sequence(2000);
  const ModuleSeconds one_rank{0.5, 0, 2.0};
  const SampleCost spread = layout->price(one_rank, load);
  EXPECT_NEAR(encoder.as_one_rank({spread.encoder_s, -1, -1}, load)[0], 0.5, 1e-9);
  const ModuleSeconds llm = first.as_one_rank({-1, -1, half * spread.llm_s}, load);
  EXPECT_NEAR(llm[2], 2.0, 1e-9);
  const ModuleSeconds here = first.from_one_rank(one_rank, load);
  EXPECT_NEAR(here[2], half * spread.llm_s, 1e-9);
  EXPECT_EQ(here[0], 0);
}

// A frozen encoder takes a third of the profile's seconds, and an LLM that computes all its layers
// again a third more, less its head.
TEST_F(ServedLayoutTest, MeasuredSecondsOfATrainedModuleBecomeThoseOfTheProfile) {
  layout_.encoder_training.weights = TrainedWeights::kNone;
  layout_.llm_training.recompute = {Recompute::kFull};
  use();
  const auto layout = create().value();
  const Receiver& encoder = layout->receivers()[0];
  const Receiver& first = layout->receivers()[2];
  EXPECT_FALSE(encoder.has_backward);
  EXPECT_TRUE(first.has_backward);
  EXPECT_NEAR(encoder.as_one_rank({0.5, -1, -1}, {})[0], 1.5, 1e-12);
  const double again = 28 / (28 + JobModel{}.llm_head_layers());
  EXPECT_NEAR(first.as_one_rank({-1, -1, first.work.shares[2]}, {})[2], 2 / (1 + again / 3), 1e-9);
  const PipelineModel pipeline = layout->pipeline({});
  EXPECT_EQ(pipeline.encoder.activation_bytes_per_unit, 0);
  EXPECT_GT(pipeline.llm.working_bytes_per_unit, 0);
}

// A measured share of the forward pass divides what a module computes, and gives a frozen encoder
// no backward pass.
TEST_F(ServedLayoutTest, AMeasuredForwardPassLeavesAFrozenEncoderWithoutABackwardPass) {
  const PassShares frozen{.forward = 1, .inputs = 0, .weights = 0};
  EXPECT_EQ(frozen.with_forward(0.4).forward, 1);
  const PassShares recomputing{.forward = 0.25, .inputs = 0.5, .weights = 0.25};
  const PassShares measured = recomputing.with_forward(0.4);
  EXPECT_DOUBLE_EQ(measured.forward, 0.4);
  EXPECT_DOUBLE_EQ(measured.inputs, 0.4);
  EXPECT_DOUBLE_EQ(measured.weights, 0.2);
}

TEST_F(ServedLayoutTest, ASampleThatNoStageCanHoldIsNamedWithTheLimit) {
  const Load load = load_of_counts(4000, 3000);
  EXPECT_FALSE(create().value()->beyond_memory(load)) << "no caps";
  layout_.activation_caps = {.encoder_bytes = std::int64_t{1} << 40, .llm_bytes = 64 << 20};
  use();
  const auto reason = create().value()->beyond_memory(load);
  ASSERT_TRUE(reason.has_value());
  EXPECT_THAT(*reason,
              HasSubstr("llm chunk 0, the layout's activation_caps.llm_bytes is 67108864"));
  EXPECT_FALSE(create().value()->beyond_memory(load_of_counts(4, 1)));
  layout_.activation_caps = {.encoder_bytes = 1 << 20};
  use();
  EXPECT_THAT(create().value()->beyond_memory(load).value_or(""), HasSubstr("encoder chunk 0"));
}

TEST_F(ServedLayoutTest, FewerMicrobatchesThanStagesAreWarnedOfWithTheirCost) {
  EXPECT_THAT(create().value()->warnings(), testing::IsEmpty());
  layout_.llm = {2, 4, 2};
  layout_.microbatches = options_.microbatches = 3;
  use();
  EXPECT_THAT(create().value()->warnings(),
              testing::ElementsAre(HasSubstr("3 microbatches for 5 stages: about 57 %")));
}

// One stage takes twice as long: the search knows which, and beats a plan that does not.
TEST_F(ServedLayoutTest, PlansKnowTheSlowdownOfEveryStage) {
  const auto layout = create().value();
  std::vector<SampleCost> samples;
  for (const Load& load : this->input(96).loads) {
    samples.push_back(layout->price(model_.predict_sample(load), load));
  }
  const auto bins_for = [&](const PipelineModel& model) {
    return plan_pipeline(model, samples, PipelinePolicy::kCost, {.evaluations = 2000})->bins;
  };
  std::vector<double> slowdowns(layout->receivers().size(), 1);
  for (std::size_t i = 0; i < slowdowns.size(); ++i) {
    const Receiver& receiver = layout->receivers()[i];
    if (receiver.module == LayoutModule::kLlm && receiver.replica == 1 && receiver.stage == 0)
      slowdowns[i] = 2;
  }
  const PipelineModel slowed = layout->pipeline(slowdowns);
  EXPECT_EQ(slowed.llm.slowdowns, (std::vector<double>{1, 1, 2, 1}));
  EXPECT_EQ(slowed.encoder.slowdowns, (std::vector<double>{1, 1}));
  const auto step_s = [&](const MicrobatchBins& bins) {
    return simulate(make_step(slowed, microbatch_loads(samples, bins))).value().step_s;
  };
  EXPECT_LT(step_s(bins_for(slowed)), 0.95 * step_s(bins_for(layout->pipeline({}))));
}

TEST_F(ServedLayoutTest, RefusesWhatDoesNotFit) {
  options_.ranks = 3;
  EXPECT_EQ(refusal(),
            "ranks = 3: layout layout.json has 2 LLM replicas: leave ranks out, or the layout");
  options_.ranks = 2;
  options_.microbatches = 4;
  EXPECT_EQ(refusal(),
            "microbatches = 4: layout layout.json has 6 microbatches per replica: leave "
            "microbatches out, or the layout");
  options_.microbatches = 6;
  layout_.llm.tensor = 3;  // of 28 heads
  use();
  EXPECT_THAT(refusal(), HasSubstr("layout.json"));
  EXPECT_THAT(refusal(), HasSubstr("heads"));
}

}  // namespace
}  // namespace isocost
