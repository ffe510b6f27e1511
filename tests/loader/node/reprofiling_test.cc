#include "loader/node/internal/reprofiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/random.h"
#include "tests/loader/node/node_support.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReprofilingTest : public testing::Test {
 protected:
  void train(int steps, double factor) {
    const CostModel exact(CostProfile::stated_default(), {});
    for (int i = 0; i < steps; ++i) {
      auto step = std::make_shared<SealedStep>();
      step->plan =
          model_.plan([](const CostModel&) { return Result<StepPlan>(StepPlan{}); }).value();
      for (int microbatch = 0; microbatch < 8; ++microbatch) {
        Measurement measurement;
        measurement.load[Module::kLlm].add_sequence(
            static_cast<std::int64_t>(500 + random_.below(3000)));
        measurement.seconds = {kNotMeasured, kNotMeasured,
                               factor * exact.predict_microbatch(measurement.load)[2]};
        measurement.step = step_;
        EXPECT_TRUE(model_.report(measurement, step));
      }
      step_ += 1;
    }
  }
  void drift() {
    train(40, factor_);
    factor_ *= 2;
    train(6, factor_);
    EXPECT_TRUE(model_.plan([](const CostModel&) { return Result<StepPlan>(StepPlan{}); }));
  }

  OnlineModel model_{CostProfile::stated_default(), {}, {}};
  LogLines log_;
  Reprofiling reprofiling_{true, model_, log_.sink()};
  Random random_{1};
  std::uint64_t step_ = 0;
  double factor_ = 1;
};

TEST_F(ReprofilingTest, AsksOnceForEachDrift) {
  EXPECT_FALSE(reprofiling_.should_ask());
  drift();
  EXPECT_TRUE(reprofiling_.should_ask());
  for (int step = 0; step < 200; ++step) EXPECT_FALSE(reprofiling_.should_ask());
  EXPECT_THAT(log_.lines(), ElementsAre("asking rank 0 to measure a new model profile"));
}

TEST_F(ReprofilingTest, DoesNotAskAgainWhileAnAnswerMayBeOnItsWay) {
  drift();
  ASSERT_TRUE(reprofiling_.should_ask());
  drift();
  for (int step = 1; step < 64; ++step) EXPECT_FALSE(reprofiling_.should_ask());
  EXPECT_TRUE(reprofiling_.should_ask());
}

TEST_F(ReprofilingTest, NeverAsksWhereItIsOff) {
  Reprofiling off(false, model_, {});
  drift();
  EXPECT_FALSE(off.should_ask());
}

TEST_F(ReprofilingTest, AdoptsTheProfileThatItAskedFor) {
  drift();
  ASSERT_TRUE(reprofiling_.should_ask());
  std::jthread([&] { reprofiling_.receive({0, CostProfile::stated_default().to_json()}); }).join();
  EXPECT_EQ(model_.progress().profiles, 0U);
  reprofiling_.adopt_received();
  EXPECT_EQ(model_.progress().profiles, 1U);
  EXPECT_THAT(log_.lines().back(), HasSubstr("model profile of rank 0 adopted"));
  EXPECT_FALSE(reprofiling_.should_ask());
  drift();
  EXPECT_TRUE(reprofiling_.should_ask());
}

TEST_F(ReprofilingTest, IgnoresAProfileThatNobodyAskedFor) {
  reprofiling_.receive({2, CostProfile::stated_default().to_json()});
  reprofiling_.adopt_received();
  EXPECT_EQ(model_.progress().profiles, 0U);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("model profile of rank 2 ignored")));
}

TEST_F(ReprofilingTest, KeepsTheProfileWhereTheNewOneCannotBeRead) {
  drift();
  ASSERT_TRUE(reprofiling_.should_ask());
  reprofiling_.receive({0, "{}"});
  reprofiling_.adopt_received();
  EXPECT_EQ(model_.progress().profiles, 0U);
  EXPECT_THAT(log_.lines().back(), HasSubstr("the node keeps the present profile"));
}

}  // namespace
}  // namespace isocost
