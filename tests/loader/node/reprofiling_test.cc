#include "loader/node/internal/reprofiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/loader/node/online_model_fixture.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReprofilingTest : public OnlineModelFixture {
 protected:
  void drift() {
    train(model_, 40, factor_);
    factor_ *= 2;
    train(model_, 6, factor_);
    plan(model_);
  }

  LogLines log_;
  Reprofiling reprofiling_{true, model_, log_.sink()};
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
