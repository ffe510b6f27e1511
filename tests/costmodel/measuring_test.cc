// Which steps are measured: the gate between what correction gains and what measuring costs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "tests/support/emulated_trainer.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSeeds[] = {1, 2, 3, 4};
constexpr double kCost = 0.04;

CostProfile exact_profile() {
  CostProfile profile;
  profile.modules[0].coefficients = {4e-3, 1e-4, 2e-6, 4e-10};
  profile.modules[1].coefficients = {3e-3, 1e-4, 6e-6, 1e-9};
  profile.modules[2].coefficients = {5e-3, 0, 1.5e-5, 2e-9};
  profile.source = "measured";
  return profile;
}

EmulationOptions obedient(std::uint64_t seed, double measuring = kCost) {
  return {.measuring = measuring, .measures_all = false, .seed = seed};
}

// Runs steps until one is measured or `most` have run. Returns how many ran.
int until_measured(EmulatedTrainer& trainer, CostModel& model, int most) {
  for (int step = 1; step <= most; ++step) {
    if (trainer.run_step(model).measured) return step;
  }
  return most + 1;
}

// Runs until correction is paused and no step that was planned before is left.
void close_the_gate(EmulatedTrainer& trainer, CostModel& model) {
  int steps = 0;
  while (model.measuring_stride() < kLeastStride && ++steps < 100) trainer.run_step(model);
  ASSERT_FALSE(model.correction().on);
  for (int step = 0; step < 3; ++step) trainer.run_step(model);
}

TEST(Measuring, AJobBeginsWithMeasuredSteps) {
  EmulatedTrainer trainer(cost_of(exact_profile()), obedient(1));
  CostModel model(exact_profile(), {});
  for (int step = 0; step < 16; ++step) EXPECT_TRUE(trainer.run_step(model).measured) << step;
}

TEST(Measuring, AnExactProfileEndsIt) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    EmulatedTrainer trainer(cost_of(exact_profile()), obedient(seed));
    CostModel model(exact_profile(), {});
    close_the_gate(trainer, model);
    const CorrectionStatus status = model.correction();
    EXPECT_NEAR(status.measuring, kCost, 0.2 * kCost);
    EXPECT_EQ(status.overhead, status.measuring) << "without a clock, learning takes no time";
    EXPECT_EQ(status.measuring_stride, model.measuring_stride());
    // A step in 80 of 4 % each is a quarter of the least gain of 0.2 %.
    EXPECT_NEAR(static_cast<double>(model.measuring_stride()), 80, 20);
    int measured = 0;
    for (int step = 0; step < 400; ++step) measured += trainer.run_step(model).measured ? 1 : 0;
    EXPECT_LE(measured, 10);
    EXPECT_GE(measured, 3);
  }
}

// One step in 16 is measured where that costs nothing, too.
TEST(Measuring, CheapMeasuringHasTheLeastStride) {
  EmulatedTrainer trainer(cost_of(exact_profile()), obedient(1, 1e-5));
  CostModel model(exact_profile(), {});
  close_the_gate(trainer, model);
  EXPECT_EQ(model.measuring_stride(), kLeastStride);
}

TEST(Measuring, AModuleThatChangesIsNoticedAndTheGateOpens) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    bool unfrozen = false;
    HiddenCost hidden = cost_of(exact_profile());
    hidden.seconds = [plain = hidden.seconds, &unfrozen](
                         CostModule module, std::span<const Load> samples, std::int64_t step) {
      return plain(module, samples, step) * (unfrozen && module == CostModule::kVision ? 3 : 1);
    };
    EmulatedTrainer trainer(hidden, obedient(seed));
    CostModel model(exact_profile(), {});
    close_the_gate(trainer, model);
    unfrozen = true;
    const auto stride = static_cast<int>(model.measuring_stride());
    EXPECT_LE(until_measured(trainer, model, stride + 3), stride + 3);
    EXPECT_EQ(model.measuring_stride(), 1) << "the next steps show whether it has changed";
    int steps = 0;
    while (model.correction().drifts == 0 && ++steps < 20) trainer.run_step(model);
    EXPECT_LE(steps, 8);
    EXPECT_TRUE(model.correction().on);
    // Once it is learned, its measuring pays or is thinned out again.
    for (int step = 0; step < 40; ++step) trainer.run_step(model);
    EXPECT_EQ(model.correction().drifts, 1U);
    EXPECT_GT(model.measuring_stride(), 1);
    const EmulatedStep run = trainer.run_step(model);
    EXPECT_LE(run.seconds / run.oracle_seconds, 1.03);
  }
}

TEST(Measuring, ARankThatSlowsDownIsNoticed) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    bool slow = false;
    HiddenCost hidden = cost_of(exact_profile());
    hidden.slowdown = [&slow](std::int32_t rank, std::int64_t) {
      return slow && rank == 3 ? 1.3 : 1.0;
    };
    EmulatedTrainer trainer(hidden, obedient(seed));
    CostModel model(exact_profile(), {});
    close_the_gate(trainer, model);
    slow = true;
    until_measured(trainer, model, static_cast<int>(model.measuring_stride()) + 3);
    for (int step = 0; step < 12; ++step) trainer.run_step(model);
    EXPECT_NEAR(model.rank_slowdowns()[3], 1.3, 0.1);
    const EmulatedStep run = trainer.run_step(model);
    EXPECT_LE(run.seconds / run.oracle_seconds, 1.03);
    EXPECT_EQ(model.correction().drifts, 0U);
  }
}

// Factors stay when few steps are measured, so measuring takes little of its gain.
TEST(Measuring, TakesATenthOfTheGainAtMost) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    HiddenCost hidden = cost_of(exact_profile());
    hidden.slowdown = [](std::int32_t rank, std::int64_t) { return rank == 3 ? 1.5 : 1.0; };
    EmulatedTrainer trainer(hidden, obedient(seed));
    CostModel model(exact_profile(), {});
    for (int step = 0; step < 60; ++step) trainer.run_step(model);
    EXPECT_TRUE(model.correction().on);
    EXPECT_GT(model.correction().gain, 0.1);
    int measured = 0;
    for (int step = 0; step < 200; ++step) measured += trainer.run_step(model).measured ? 1 : 0;
    EXPECT_LE(kCost * measured / 200, 0.15 * model.correction().gain);
    EXPECT_GE(measured, 10);
  }
}

// A process that was stopped while it measured.
TEST(Measuring, OneAbsurdTimeDoesNotCount) {
  EmulatedTrainer trainer(cost_of(exact_profile()), {.measuring = 1e-4, .seed = 1});
  CostModel model(exact_profile(), {});
  for (int step = 0; step < 10; ++step) trainer.run_step(model);
  Measurement absurd;
  absurd.step = 9;
  absurd.measuring_s = 3600;
  ASSERT_TRUE(model.observe(absurd));
  for (int step = 0; step < 20; ++step) trainer.run_step(model);
  EXPECT_LT(model.correction().overhead, 1e-3);
}

TEST(Measuring, ImpossibleTimesAreRefused) {
  CostModel model(exact_profile(), {});
  for (const double seconds : {-2.0, 1e6, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Measurement measurement;
    measurement.measuring_s = seconds;
    const Status refused = model.observe(measurement);
    ASSERT_FALSE(refused) << seconds;
    EXPECT_NE(refused.error().message().find("measuring took"), std::string::npos);
  }
  EXPECT_EQ(model.rejected(), 4);
}

TEST(Measuring, AnotherJobIsMeasuredFromItsStart) {
  EmulatedTrainer trainer(cost_of(exact_profile()), obedient(1));
  CostModel model(exact_profile(), {});
  close_the_gate(trainer, model);
  model.begin_job();
  EXPECT_EQ(model.measuring_stride(), 1) << "its ranks may be on other hosts";
}

TEST(Measuring, WithoutCorrectionItIsForDisplay) {
  const CostModel model(exact_profile(), {.correct = false});
  EXPECT_EQ(model.measuring_stride(), kLeastStride);
  EXPECT_EQ(model.correction().measuring_stride, kLeastStride);
}

TEST(Measuring, TheFirstStepOfAJobIsMeasured) {
  MeasuredSteps steps;
  EXPECT_TRUE(steps.next(1000));
  for (int step = 1; step < 1000; ++step) EXPECT_FALSE(steps.next(1000)) << step;
  EXPECT_TRUE(steps.next(1000));
  EXPECT_FALSE(steps.next(1000));
  EXPECT_TRUE(steps.next(1)) << "the gate has opened";
  EXPECT_FALSE(steps.next(2));
  steps.begin_job();
  EXPECT_TRUE(steps.next(1000));
}

// A step of fewer microbatches than the one before is complete when ranks have gone on.
TEST(Measuring, AnUnmeasuredStepCompletesTheOneBefore) {
  CostModel model(exact_profile(), {});
  const auto observe = [&model](std::uint64_t step, std::int32_t rank) {
    Measurement measurement;
    measurement.step = step;
    measurement.rank = rank;
    measurement.load[CostModule::kLlm].add_sequence(1000);
    measurement.seconds = {-1, -1, 0.5};
    ASSERT_TRUE(model.observe(measurement));
  };
  observe(0, 0);
  observe(0, 1);
  model.update();
  observe(1, 2);
  EXPECT_EQ(model.rank_slowdowns().size(), 2U);
  model.update();
  model.pass(1);
  EXPECT_EQ(model.rank_slowdowns().size(), 2U) << "another rank may still report on step 1";
  model.pass(2);
  EXPECT_EQ(model.rank_slowdowns().size(), 3U) << "step 1 was learned from";
}

}  // namespace
}  // namespace isocost
