// The correction learns from noisy sums over microbatches, and ignores the disturbances below.
#include <gtest/gtest.h>

#include "tests/costmodel/support.h"

namespace isocost {
namespace {

TEST(Correction, FindsHiddenCostsFromNoisySums) {
  // All terms are significant: 50 ms per microbatch, 20 ms per sequence, and terms by size.
  Machine machine;
  machine.hidden.fill({0.05, 0.02, 2e-5, 1e-8});
  CostModel model(CostProfile::stated_default(), {.correction = {.half_life = 1e5, .clock = {}}});
  Random random(31);
  for (int n = 0; n < 5'000; ++n) {
    train(model, machine, random);
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.02);
}

TEST(Correction, FromTheDefaultOnAMachineAThousandTimesSlowerWithinFortyMeasurements) {
  const Machine machine = slow_machine();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CostModel model(CostProfile::stated_default(), {});
    Random random(seed);
    for (int n = 0; n < 40; ++n) {
      train(model, machine, random);
    }
    EXPECT_LE(worst_error(model, machine, 99), 0.06) << "seed " << seed;
  }
}

TEST(Correction, AFewMeasurementsGiveTheScale) {
  const Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(5);
  for (int n = 0; n < 3; ++n) {
    train(model, machine, random);
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.25);
}

TEST(Correction, OutliersHaveNoEffect) {
  const Machine machine = slow_machine();
  CostModel clean(CostProfile::stated_default(), {});
  CostModel disturbed(CostProfile::stated_default(), {});
  Random random(6);
  for (int n = 0; n < 1000; ++n) {
    Measurement measurement = machine.measure(random_microbatch(random), random);
    learn(clean, measurement);
    if (n % 50 == 7) {
      for (double& seconds : measurement.seconds) {
        if (seconds != kNotMeasured) seconds *= 10;
      }
    }
    learn(disturbed, measurement);
  }
  EXPECT_LE(worst_error(clean, machine, 99), 0.02);
  EXPECT_LE(worst_error(disturbed, machine, 99), 0.02);
}

TEST(Correction, AFirstMeasurementThatIsAnOutlierIsOvercome) {
  const Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(8);
  for (int n = 0; n < 40; ++n) {
    Measurement measurement = machine.measure(random_microbatch(random), random);
    if (n == 0) {
      for (double& seconds : measurement.seconds) {
        if (seconds != kNotMeasured) seconds *= 10;
      }
    }
    learn(model, measurement);
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.05);
}

TEST(Correction, FollowsAModelThatChanges) {
  Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(9);
  for (int n = 0; n < 190; ++n) {
    if (n == 150) machine.hidden[0].per_unit *= 3;
    train(model, machine, random);
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.05);
}

TEST(Correction, AnExactProfileStaysExact) {
  Machine machine = slow_machine();
  const CostProfile exact = profile_of(machine.hidden);
  CostModel model(exact, {});
  Random random(10);
  double worst = 0;
  for (int n = 0; n < 200; ++n) {
    train(model, machine, random);
    worst = std::max(worst, worst_error(model, machine, 99));
  }
  EXPECT_LE(worst, 0.06);
  EXPECT_LE(worst_error(model, machine, 99), 0.01);
}

TEST(Correction, NeverLearnsNegativeSeconds) {
  // Seconds that fall with size: no non-negative weights explain them, and none become negative.
  CostModel model(CostProfile::stated_default(), {});
  Random random(12);
  for (int n = 0; n < 200; ++n) {
    const Load load = random_microbatch(random);
    const double seconds = 1 / static_cast<double>(load[CostModule::kLlm].units);
    learn(model, {load, {seconds, seconds, seconds}});
    for (const CorrectionStatus::ModuleFactors& factors : model.correction().modules) {
      EXPECT_GE(factors.fixed, 0);
      for (const double factor : factors.buckets) EXPECT_GE(factor, 0);
    }
  }
}

// If ranks report in turn, a regular sample of a large step could come from a single rank.
TEST(Correction, ASlowRankOfALargeJobIsNotModelDrift) {
  constexpr std::int32_t kRanks = 5;
  CostModel model(profile_of(slow_machine().hidden), {});
  const Machine machine = slow_machine();
  Random random(31);
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::int32_t n = 0; n < 104 * kRanks; ++n) {
      Measurement measurement = machine.measure(random_microbatch(random), random);
      measurement.rank = n % kRanks;
      measurement.step = step;
      if (measurement.rank == 0 && step >= 10) {
        for (double& seconds : measurement.seconds) seconds *= 1.3;
      }
      ASSERT_TRUE(model.observe(measurement));
    }
    model.update();
  }
  EXPECT_EQ(model.correction().drifts, 0U);
  EXPECT_NEAR(model.rank_slowdowns()[0] / model.rank_slowdowns()[1], 1.3, 0.03);
}

}  // namespace
}  // namespace isocost
