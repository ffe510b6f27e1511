// What the correction learns from noisy sums over microbatches, and what it does not fall for.
#include <gtest/gtest.h>

#include "tests/costmodel/support.h"

namespace isocost {
namespace {

TEST(Correction, FindsHiddenCoefficientsFromNoisySums) {
  // Every term matters: 10 ms a microbatch, 5 ms a sequence, some 25 ms and 8 ms by size.
  Machine machine;
  machine.hidden.fill({0.05, 0.02, 2e-5, 1e-8});
  CostModel model(CostProfile::stated_default(), {.half_life = 1e5});
  Random random(31);
  for (int n = 0; n < 20'000; ++n) {
    ASSERT_TRUE(model.observe(machine.measure(random_microbatch(random), random)));
  }
  for (std::size_t i = 0; i < kModules; ++i) {
    const ModuleCoefficients& found = model.coefficients()[i];
    const ModuleCoefficients& hidden = machine.hidden[i];
    EXPECT_NEAR(found.per_microbatch, hidden.per_microbatch, 0.02 * hidden.per_microbatch) << i;
    EXPECT_NEAR(found.per_sequence, hidden.per_sequence, 0.02 * hidden.per_sequence) << i;
    EXPECT_NEAR(found.per_unit, hidden.per_unit, 0.02 * hidden.per_unit) << i;
    EXPECT_NEAR(found.per_unit_squared, hidden.per_unit_squared, 0.02 * hidden.per_unit_squared)
        << i;
  }
}

TEST(Correction, FromTheDefaultOnAMachineAThousandTimesSlowerWithinFortyMeasurements) {
  const Machine machine = slow_machine();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CostModel model(CostProfile::stated_default(), {});
    Random random(seed);
    for (int n = 0; n < 40; ++n) {
      ASSERT_TRUE(model.observe(machine.measure(random_microbatch(random), random)));
    }
    EXPECT_LE(worst_error(model, machine, 99), 0.05) << "seed " << seed;
  }
}

TEST(Correction, AFewMeasurementsAlreadyGiveTheScale) {
  const Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(5);
  for (int n = 0; n < 3; ++n) {
    ASSERT_TRUE(model.observe(machine.measure(random_microbatch(random), random)));
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.25);
}

TEST(Correction, OutliersMoveNothing) {
  const Machine machine = slow_machine();
  CostModel clean(CostProfile::stated_default(), {});
  CostModel disturbed(CostProfile::stated_default(), {});
  Random random(6);
  for (int n = 0; n < 1000; ++n) {
    Measurement measurement = machine.measure(random_microbatch(random), random);
    ASSERT_TRUE(clean.observe(measurement));
    if (n % 50 == 7) {
      for (double& seconds : measurement.seconds) seconds *= 10;
    }
    ASSERT_TRUE(disturbed.observe(measurement));
  }
  EXPECT_LE(worst_error(clean, machine, 99), 0.01);
  EXPECT_LE(worst_error(disturbed, machine, 99), 0.015);
}

TEST(Correction, AFirstMeasurementThatIsAnOutlierIsOvercome) {
  const Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(8);
  for (int n = 0; n < 40; ++n) {
    Measurement measurement = machine.measure(random_microbatch(random), random);
    if (n == 0) {
      for (double& seconds : measurement.seconds) seconds *= 10;
    }
    ASSERT_TRUE(model.observe(measurement));
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.05);
}

TEST(Correction, FollowsAModelThatChanges) {
  Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(9);
  for (int n = 0; n < 190; ++n) {
    if (n == 150) machine.hidden[0].per_unit *= 3;
    ASSERT_TRUE(model.observe(machine.measure(random_microbatch(random), random)));
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.05);
}

TEST(Correction, AnExactProfileStaysExact) {
  Machine machine = slow_machine();
  const CostProfile exact{.modules = machine.hidden, .source = "measured"};
  CostModel model(exact, {});
  Random random(10);
  double worst = 0;
  for (int n = 0; n < 200; ++n) {
    ASSERT_TRUE(model.observe(machine.measure(random_microbatch(random), random)));
    worst = std::max(worst, worst_error(model, machine, 99));
  }
  EXPECT_LE(worst, 0.06);
  EXPECT_LE(worst_error(model, machine, 99), 0.01);
}

TEST(Correction, NeverLearnsNegativeSeconds) {
  // Seconds that fall with size: nothing non-negative explains them, and nothing negative appears.
  CostModel model(CostProfile::stated_default(), {});
  Random random(12);
  for (int n = 0; n < 200; ++n) {
    const Load load = random_microbatch(random);
    const double seconds = 1 / static_cast<double>(load[Module::kLlm].units);
    ASSERT_TRUE(model.observe({load, {seconds, seconds, seconds}}));
    for (const ModuleCoefficients& c : model.coefficients()) {
      EXPECT_GE(c.per_microbatch, 0);
      EXPECT_GE(c.per_sequence, 0);
      EXPECT_GE(c.per_unit, 0);
      EXPECT_GE(c.per_unit_squared, 0);
    }
  }
}

}  // namespace
}  // namespace isocost
