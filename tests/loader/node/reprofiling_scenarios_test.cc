// Jobs in a pipeline whose model or data change, as simulated: trainers report and measure the
// seconds of a hidden model, with noise, and steps last as long as the simulator says by it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/simulator.h"
#include "base/random.h"
#include "loader/node/internal/measurement.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/internal/reprofiling.h"
#include "loader/plan/planner.h"
#include "tests/support/log_lines.h"
#include "tests/support/manual_clock.h"

namespace isocost {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Two replicas of two stages. The first stages have the encoder, frozen or trained.
Layout layout_of(TrainedWeights encoder) {
  Layout layout;
  layout.encoder_place = EncoderPlacement::kLlmRanks;
  layout.encoder = layout.llm = {.tensor = 1, .pipeline = 2, .data = 2};
  layout.encoder_training.weights = encoder;
  layout.layers = {.encoder = {27, 0}, .llm = {8, 20}};
  layout.microbatches = 6;
  return layout;
}

class Job {
 public:
  explicit Job(TrainedWeights encoder) : plan_options_(options_of(encoder)) {
    served_ = ServedLayout::create(plan_options_, start_, {}).value();
    thaw(encoder);
    model_.emplace(start_, CostModel::Options{}, log_.sink());
    reprofiling_.emplace(
        Reprofiling::Options{
            .allowed = true, .budget_share = 0.02, .layout = served_.get(), .clock = now_.clock()},
        *model_, log_.sink());
  }

  // From here on, the encoder is trained as the trainer says, whatever the layout says.
  void thaw(TrainedWeights encoder) {
    true_layout_ = ServedLayout::create(options_of(encoder), truth(), {}).value();
  }
  // From here on, the longest samples are so many tokens long, and pictures as large in proportion.
  void lengthen(std::int64_t longest) { longest_ = longest; }

  // From here on, the LLM runs its forward passes again before its backward passes.
  void recompute() { llm_factor_ = 4.0 / 3; }

  // Plans and trains a step. Returns its seconds over those of an oracle's step, which knows the
  // hidden model.
  double step() {
    const PlanInput samples = draw();
    reprofiling_->adopt_received();
    auto sealed = std::make_shared<SealedStep>();
    sealed->step = step_;
    sealed->plan = model_
                       ->plan([&](const CostModel& model) {
                         return plan_step(samples, model, plan_options_, served_.get());
                       })
                       .value();
    asked_ += reprofiling_->ask({0, step_, 0}) > 0 ? measure() : 0;
    report(sealed);
    const double seconds = lasts(sealed->plan, samples);
    now_.advance(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
    step_ += 1;
    const CostModel exact(truth(), {});
    const StepPlan oracle = plan_step(samples, exact, plan_options_, true_layout_.get()).value();
    return seconds / lasts(oracle, samples);
  }
  double mean_ratio(int steps) {
    double sum = 0;
    for (int i = 0; i < steps; ++i) sum += step();
    return sum / steps;
  }
  // Trains until a profile was adopted. Returns the number of steps that it took.
  int until_adopted() {
    for (int steps = 1; steps <= 300; ++steps) {
      step();
      if (profiles() > 0) return steps;
    }
    return -1;
  }

  std::uint32_t profiles() { return model_->progress().profiles; }
  int asked() const { return asked_; }
  std::vector<std::string> log() const { return log_.lines(); }
  CostProfile profile() { return model_->profile(); }
  double trained_s() { return seconds_between({}, now_.clock()()); }

  // Makes the fourth receiver, the second stage of the second replica, so many times slower.
  double slow_stage = 1;

 private:
  // The hidden model: attention costs what the starting profile does not know.
  CostProfile truth() const {
    CostProfile profile = CostProfile::stated_default();
    profile.modules[2].coefficients = {
        .per_microbatch = 2e-3, .per_sequence = 0, .per_unit = 2e-5, .per_unit_squared = 4e-8};
    profile.modules[0].coefficients = {
        .per_microbatch = 2e-3, .per_sequence = 0, .per_unit = 3e-5, .per_unit_squared = 1e-9};
    ModuleCoefficients& llm = profile.modules[2].coefficients;
    for (double* weight : {&llm.per_microbatch, &llm.per_unit, &llm.per_unit_squared}) {
      *weight *= llm_factor_;
    }
    return profile;
  }
  static PlanOptions options_of(TrainedWeights encoder) {
    PlanOptions options;
    options.layout = std::make_shared<const Layout>(layout_of(encoder));
    options.layout_file = "layout.json";
    options.ranks = 2;
    options.microbatches = 6;
    options.global_batch_size = 48;
    return options;
  }
  CostProfile starting() const {
    CostProfile profile = truth();
    profile.modules[2].coefficients.per_unit = 4.4e-5;  // fits samples of up to a thousand tokens
    profile.modules[2].coefficients.per_unit_squared = 0;
    return profile;
  }

  PlanInput draw() {
    PlanInput input;
    for (std::uint64_t i = 0; i < 48; ++i) {
      const auto below = static_cast<std::uint64_t>(longest_);
      const auto patches = static_cast<std::int64_t>(
          random_.below(4) == 0 ? 0 : below / 2 + random_.below(2 * below));
      const auto tokens = static_cast<std::int64_t>(below / 10 + random_.below(below - below / 10));
      input.loads.push_back(load_of_counts(patches, tokens));
      input.loads.back().label_tokens = 20;
      input.weights.push_back(1);
      input.ids.push_back(i);
    }
    return input;
  }

  double noise() {
    const double u = (static_cast<double>(random_.below(1'000'000)) + 1) / 1e6;
    const double v = static_cast<double>(random_.below(1'000'000)) / 1e6;
    return 1 + 0.02 * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }
  double slowdown(std::size_t receiver) const { return receiver == 3 ? slow_stage : 1; }

  void report(const std::shared_ptr<const SealedStep>& sealed) {
    const CostModel exact(truth(), {});
    const auto receivers = true_layout_->receivers();
    for (std::size_t r = 0; r < receivers.size(); ++r) {
      for (std::uint32_t m = 0; m < sealed->plan.microbatches; ++m) {
        const PlannedMicrobatch& bin = sealed->plan.microbatch_of(r, m);
        Report measured;
        measured.position = {0, sealed->step, m};
        measured.seconds = receivers[r].from_one_rank(exact.predict_microbatch(bin.load), bin.load);
        for (double& seconds : measured.seconds) {
          seconds = seconds > 0 ? seconds * slowdown(r) * noise() : kNotMeasured;
        }
        EXPECT_TRUE(model_->queue_measurement(measurement_of(sealed->plan, r, measured), sealed));
      }
    }
  }

  // Returns the seconds that the plan's microbatches take in the pipeline as it is.
  double lasts(const StepPlan& plan, const PlanInput& samples) const {
    const CostModel exact(truth(), {});
    std::vector<SampleCost> costs;
    for (const PlannedMicrobatch& bin : plan.bins) {
      SampleCost& sum = costs.emplace_back();
      for (const PlannedSample& sample : bin.samples) {
        const Load& load = samples.loads[sample.index];
        sum += true_layout_->price(exact.predict_sample(load), load);
      }
    }
    const std::vector<double> slowdowns{1, 1, 1, slow_stage};
    return simulate(make_step(true_layout_->pipeline(slowdowns), costs)).value().step_s;
  }

  // Every receiver measures a layer of each module that it has, of all lengths.
  int measure() {
    const auto receivers = true_layout_->receivers();
    for (std::size_t r = 0; r < receivers.size(); ++r) {
      std::string modules;
      for (const CostModule module : {CostModule::kVision, CostModule::kLlm}) {
        if (receivers[r].work.shares.at(static_cast<std::size_t>(module)) <= 0) continue;
        if (!modules.empty()) modules += ", ";
        modules += layers_of(receivers[r], module, slowdown(r));
      }
      reprofiling_->receive(
          {static_cast<std::int32_t>(r),
           {fmt::format(R"({{"version": 1, "kind": "layer profile", "unit": "seconds", )"
                        R"("modules": {{{}}}}})",
                        modules),
            0.5,
            {},
            {0, step_, 0}}});
    }
    return 1;
  }
  std::string layers_of(const Receiver& receiver, CostModule module, double slow) {
    const auto m = static_cast<std::size_t>(module);
    const CostModel exact(truth(), {});
    const bool backward = module == CostModule::kLlm || receiver.has_backward;
    std::string points;
    for (std::int64_t length = 64; length <= 4 * longest_; length *= 2) {
      for (const std::int64_t sequences : {1, 4}) {
        Load load;
        for (std::int64_t i = 0; i < sequences; ++i) load[module].add_sequence(length);
        const double whole = exact.predict_microbatch(load).at(m);
        const double layer =
            receiver.tensor.at(m).share * receiver.layer_shares.at(m) * whole * slow * noise();
        points += fmt::format(
            R"({}{{"sequences": {}, "units": {}, "units_squared": {}, "forward_s": {}, )"
            R"("backward_s": {}, "spread": 0.02, "peak_bytes": 0}})",
            points.empty() ? "" : ", ", sequences, load[module].units, load[module].units_squared,
            backward ? layer / 3 : layer, backward ? 2 * layer / 3 : 0);
      }
    }
    return fmt::format(R"("{}": {{"layers": 1, "points": [{}]}})", module_name(module), points);
  }

  double llm_factor_ = 1;
  const CostProfile start_ = starting();
  const PlanOptions plan_options_;
  std::unique_ptr<const ServedLayout> served_;
  std::unique_ptr<const ServedLayout> true_layout_;
  std::int64_t longest_ = 1000;
  ManualClock now_;
  LogLines log_;
  std::optional<OnlineModel> model_;
  std::optional<Reprofiling> reprofiling_;
  Random random_{7};
  std::uint32_t step_ = 0;
  int asked_ = 0;
};

TEST(ReprofilingScenarios, AThawedEncoderIsPlannedAsByAnOracleTwentyStepsAfterAdoption) {
  Job job(TrainedWeights::kNone);
  job.mean_ratio(150);
  ASSERT_EQ(job.asked(), 0);
  job.thaw(TrainedWeights::kAll);
  const int steps = job.until_adopted();
  EXPECT_GT(steps, 3);
  EXPECT_LT(steps, 40);
  EXPECT_THAT(job.log(), Contains(HasSubstr("Model drift detected in module vision")));
  EXPECT_THAT(job.log(), Not(Contains(HasSubstr("Model drift detected in module llm"))));
  EXPECT_THAT(job.log(), Contains(HasSubstr("module vision has a backward pass, other than the "
                                            "layout says")));
  job.mean_ratio(20);
  const double ratio = job.mean_ratio(20);
  EXPECT_LT(ratio, 1.03);
  EXPECT_EQ(job.asked(), 1);
}

TEST(ReprofilingScenarios, AFrozenEncoderIsPlannedAsByAnOracleTwentyStepsAfterAdoption) {
  Job job(TrainedWeights::kAll);
  job.mean_ratio(150);
  job.thaw(TrainedWeights::kNone);
  ASSERT_GT(job.until_adopted(), 0);
  EXPECT_THAT(job.log(), Contains(HasSubstr("Model drift detected in module vision")));
  job.mean_ratio(20);
  EXPECT_LT(job.mean_ratio(20), 1.03);
}

// Longer sequences take more memory, so the trainer turns recomputation on, soon after.
TEST(ReprofilingScenarios, DoubledLengthsArePlannedAsByAnOracleTwentyStepsAfterAdoption) {
  Job job(TrainedWeights::kNone);
  job.mean_ratio(150);
  ASSERT_EQ(job.asked(), 0);
  job.lengthen(2000);
  job.mean_ratio(20);
  job.recompute();
  ASSERT_GT(job.until_adopted(), 0);
  EXPECT_THAT(job.log(), Contains(HasSubstr("Model drift detected in module llm")));
  job.mean_ratio(20);
  EXPECT_LT(job.mean_ratio(20), 1.03);
}

// Lengths that the profile does not know are no drift of the model: factors of their own correct
// them, and nobody measures again.
TEST(ReprofilingScenarios, DoubledLengthsAloneAreCorrected) {
  Job job(TrainedWeights::kNone);
  job.mean_ratio(150);
  job.lengthen(2000);
  job.mean_ratio(20);
  EXPECT_LT(job.mean_ratio(20), 1.03);
  EXPECT_EQ(job.asked(), 0);
}

// One stage's slowdown is not the model's drift: nobody measures again.
TEST(ReprofilingScenarios, ASlowStageIsNoDrift) {
  Job job(TrainedWeights::kNone);
  job.mean_ratio(150);
  job.slow_stage = 1.5;
  job.mean_ratio(100);
  EXPECT_EQ(job.asked(), 0);
  EXPECT_THAT(job.log(), Not(Contains(HasSubstr("Model drift"))));
}

}  // namespace
}  // namespace isocost
