// Saving and restoring the learned state. A restored model continues, and damaged bytes change
// nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/costmodel/support.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// Two ranks, the second with slowdown 1.2, on a machine that differs from the profile.
CostModel trained_model() {
  CostModel model(CostProfile::stated_default(), {});
  const Machine machine = slow_machine();
  Random random(3);
  for (std::uint64_t step = 0; step < 60; ++step) {
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      for (int microbatch = 0; microbatch < 4; ++microbatch) {
        Measurement measurement = machine.measure(random_microbatch(random), random);
        measurement.rank = rank;
        measurement.step = step;
        measurement.forward_share = 0.4;
        if (rank == 1) {
          for (double& seconds : measurement.seconds) seconds *= 1.2;
        }
        observe(model, measurement);
      }
    }
    model.update();
  }
  return model;
}

TEST(State, ContinuesFromTheSavedState) {
  const CostModel model = trained_model();
  const std::string state = model.save_state();
  EXPECT_LT(state.size(), 11'000U);
  CostModel again(CostProfile::stated_default(), {});
  ASSERT_TRUE(again.restore_state(state));
  Random random(8);
  const Load load = random_microbatch(random);
  EXPECT_EQ(again.predict_sample(load), model.predict_sample(load));
  EXPECT_NEAR(again.forward_share(), 0.4, 1e-12);
  EXPECT_EQ(again.forward_share(), model.forward_share());
  EXPECT_EQ(again.save_state(), state);
  // Slowdowns are not restored, because ranks may be on other hosts.
  EXPECT_NEAR(model.rank_slowdowns()[1] / model.rank_slowdowns()[0], 1.2, 0.03);
  EXPECT_TRUE(again.rank_slowdowns().empty());
}

// A profile is identified by its figures, not by its file or hardware.
TEST(State, IsRestoredForTheSameProfileFromAnotherFile) {
  CostProfile moved = CostProfile::stated_default();
  moved.source = "/elsewhere/profile.json";
  moved.hardware = "another name of the same GPU";
  CostModel model(moved, {});
  EXPECT_TRUE(model.restore_state(trained_model().save_state()));
}

// A profile that is wrong by orders of magnitude leads to extreme factors, which can be restored.
TEST(State, IsRestoredWithExtremeFactors) {
  CostProfile profile = CostProfile::stated_default();
  for (ModuleProfile& module : profile.modules) module.coefficients = {.per_unit = 1e-18};
  CostModel model(profile, {});
  Random random(9);
  const Machine machine = slow_machine();
  for (std::uint64_t step = 0; step < 200; ++step) {
    Measurement measurement = machine.measure(random_microbatch(random), random);
    measurement.step = step;
    observe(model, measurement);
    model.update();
  }
  CostModel again(profile, {});
  EXPECT_TRUE(again.restore_state(model.save_state()));
}

// A state can be saved at any time, also after few rows or with seconds near the limits.
TEST(State, IsRestoredFromAnyMoment) {
  for (const double spread : {0.03, 0.6}) {
    CostModel model(CostProfile::stated_default(), {});
    Machine machine = slow_machine();
    machine.spread = 0;
    Random random(12);
    for (std::uint64_t step = 0; step < 130; ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step << ", spread " << spread);
      Measurement measurement = machine.measure(random_microbatch(random), random);
      measurement.step = step;
      for (double& seconds : measurement.seconds) seconds *= std::exp(spread * noise(random));
      observe(model, measurement);
      model.update();
      CostModel again(CostProfile::stated_default(), {});
      const Status restored = again.restore_state(model.save_state());
      ASSERT_TRUE(restored) << restored.error().message();
      const Load load = random_microbatch(random);
      EXPECT_EQ(again.predict_sample(load), model.predict_sample(load));
      EXPECT_EQ(again.save_state(), model.save_state());
      if (spread > 0.1) continue;
      Random further(step);
      for (int n = 0; n < 20; ++n) train(again, machine, further);
      EXPECT_EQ(again.correction().drifts, 0U);
      if (step > 10) {
        EXPECT_LE(worst_error(again, machine, 99), 0.1);
      }
    }
  }
}

TEST(State, OfAnotherProfileIsRefused) {
  const std::string state = trained_model().save_state();
  CostModel other(profile_of(slow_machine().hidden), {});
  const Status refused = other.restore_state(state);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("another model profile"));
}

TEST(State, DamagedBytesAreRefusedAndChangeNothing) {
  const std::string state = trained_model().save_state();
  CostModel model(CostProfile::stated_default(), {});
  const std::string untouched = model.save_state();
  for (std::size_t size = 0; size < state.size(); size += 7) {
    EXPECT_FALSE(model.restore_state(std::string_view(state).substr(0, size))) << size;
  }
  for (std::size_t at = 0; at < state.size(); at += 5) {
    std::string broken = state;
    broken[at] = static_cast<char>(broken[at] ^ 0x40);
    EXPECT_FALSE(model.restore_state(broken)) << at;
  }
  std::string newer = state;
  newer[4] = 3;
  const Status refused = model.restore_state(newer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(model.save_state(), untouched);
}

}  // namespace
}  // namespace isocost
