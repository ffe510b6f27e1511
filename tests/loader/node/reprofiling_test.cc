#include "loader/node/internal/reprofiling.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "tests/loader/node/online_model_fixture.h"
#include "tests/support/log_lines.h"
#include "tests/support/manual_clock.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class ReprofilingTest : public OnlineModelFixture {
 protected:
  void drift() {
    train(model_, 40, factor_);
    factor_ *= 2;
    train(model_, 6, factor_);
    OnlineModelFixture::plan(model_);
    now_.advance(seconds(10));
  }
  Reprofiling::Options options(double budget_share = 1) {
    return {.allowed = true, .budget_share = budget_share, .clock = now_.clock()};
  }
  // One step of the planning thread.
  double step(Reprofiling& reprofiling) {
    reprofiling.adopt_received();
    ++at_.step;
    const double budget_s = reprofiling.ask(at_);
    if (budget_s > 0) asked_ = at_;
    return budget_s;
  }
  double step() { return step(reprofiling_); }
  // Answers the last question.
  void answer(Reprofiling& reprofiling, ProfileUpdate update, std::int32_t rank = 0) const {
    update.asked = asked_;
    reprofiling.receive({rank, std::move(update)});
  }
  void answer(ProfileUpdate update, std::int32_t rank = 0) {
    std::jthread([&] { answer(reprofiling_, std::move(update), rank); }).join();
  }
  std::uint32_t profiles() { return model_.progress().profiles; }
  static std::string profile() { return CostProfile::stated_default().to_json(); }

  Position at_;
  Position asked_;
  ManualClock now_;
  LogLines log_;
  Reprofiling reprofiling_{options(), model_, log_.sink()};
  double factor_ = 1;
};

TEST_F(ReprofilingTest, AsksOnceForEachDrift) {
  EXPECT_EQ(step(), 0);
  drift();
  EXPECT_GT(step(), 0);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(step(), 0);
  EXPECT_THAT(log_.lines(),
              ElementsAre("asking rank 0 to measure a new model profile",
                          "model profile: no answer of rank 0 within 64 steps; the node keeps the "
                          "present profile"));
}

TEST_F(ReprofilingTest, DoesNotAskAgainWhileAnAnswerMayBeOnItsWay) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  drift();
  drift();
  for (int i = 1; i < 64; ++i) EXPECT_EQ(step(), 0);
  EXPECT_GT(step(), 0);
}

TEST_F(ReprofilingTest, NeverAsksWhereItIsOffAndSaysOnceWhatWouldHelp) {
  Reprofiling off({.allowed = false, .clock = now_.clock()}, model_, log_.sink());
  step(off);
  drift();
  EXPECT_EQ(step(off), 0);
  drift();
  EXPECT_EQ(step(off), 0);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("with reprofile= of isocost.DataLoader")));
}

TEST_F(ReprofilingTest, AdoptsTheProfileThatItAskedFor) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  answer({profile(), 0.5, {}});
  EXPECT_EQ(profiles(), 0U);
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(profiles(), 1U);
  EXPECT_THAT(log_.lines().back(), HasSubstr("model profile of rank 0 adopted"));
  drift();
  EXPECT_GT(step(), 0);
}

TEST_F(ReprofilingTest, AsksTheTrainersOfAnotherJobAnew) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  reprofiling_.begin_job();
  EXPECT_GT(step(), 0);
  answer({profile(), 0.5, {}});
  step();
  EXPECT_EQ(profiles(), 1U);
  reprofiling_.begin_job();
  EXPECT_EQ(step(), 0);
}

TEST_F(ReprofilingTest, TheProfileOfRank0IsThatOfAllRanks) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  answer({{}, 0.5, "rank 1 is of no interest"}, 1);
  answer({profile(), 0.5, {}});
  step();
  EXPECT_EQ(profiles(), 1U);
}

TEST_F(ReprofilingTest, IgnoresAProfileThatNobodyAskedFor) {
  answer({profile(), 0.5, {}});
  step();
  EXPECT_EQ(profiles(), 0U);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("model profile of rank 0 ignored")));
}

TEST_F(ReprofilingTest, KeepsTheProfileWhereTheNewOneCannotBeRead) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  answer({"{}", 0.5, {}});
  step();
  EXPECT_EQ(profiles(), 0U);
  EXPECT_THAT(log_.lines().back(), HasSubstr("the node keeps the present profile"));
}

TEST_F(ReprofilingTest, KeepsTheProfileWhereMeasuringFailed) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  answer({{}, 0.5, "RuntimeError: the GPU is full"});
  now_.advance(seconds(1));
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(profiles(), 0U);
  EXPECT_EQ(reprofiling_.counts().kept, 1U);
  EXPECT_DOUBLE_EQ(reprofiling_.counts().seconds, 0.5);
  EXPECT_THAT(log_.lines().back(),
              "model profile: rank 0: RuntimeError: the GPU is full; the node keeps the present "
              "profile");
}

TEST_F(ReprofilingTest, WaitsForTheBudgetAndSaysSoOnce) {
  Reprofiling frugal(options(0.01), model_, log_.sink());
  step(frugal);
  drift();
  EXPECT_EQ(step(frugal), 0);
  EXPECT_EQ(step(frugal), 0);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("waits for reprofile_budget = 0.01: measuring "
                                                  "takes 1.0 s, which 90 s more of training")));
  now_.advance(seconds(90));
  EXPECT_DOUBLE_EQ(step(frugal), 0.9);  // of the second that has accumulated
}

TEST_F(ReprofilingTest, AsksAgainAfterAnExceededBudgetOnceItCoversIt) {
  Reprofiling frugal(options(0.1), model_, log_.sink());
  step(frugal);
  drift();
  ASSERT_GT(step(frugal), 0);
  answer(frugal, {profile(), 3, {}});
  now_.advance(seconds(3));
  EXPECT_EQ(step(frugal), 0);
  EXPECT_EQ(profiles(), 0U);
  EXPECT_THAT(log_.lines()[1],
              HasSubstr("rank 0 took 3.0 s to measure, and reprofile_budget = 0.1 of training had "
                        "accumulated 1.0 s: the node asks again in 54 s; measure fewer loads"));
  now_.advance(seconds(54));
  EXPECT_EQ(step(frugal), 0);
  now_.advance(milliseconds(501));
  EXPECT_NEAR(step(frugal), 0.9 * 3.75, 1e-3);  // what it took, and a quarter more
  now_.advance(seconds(3));
  answer(frugal, {profile(), 3, {}});
  step(frugal);
  EXPECT_EQ(profiles(), 1U);
}

TEST_F(ReprofilingTest, AnAnswerThatDoesNotSayHowLongItTookSpendsAllThatWasGranted) {
  Reprofiling frugal(options(0.1), model_, log_.sink());
  step(frugal);
  drift();
  ASSERT_GT(step(frugal), 0);
  answer(frugal, {profile(), 0, {}});
  now_.advance(seconds(1));
  step(frugal);
  EXPECT_EQ(profiles(), 1U);
  EXPECT_DOUBLE_EQ(frugal.counts().seconds, 1);
}

TEST_F(ReprofilingTest, AReasonIsOneLineOfTheLog) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  answer({{}, 0.1, "no\nmemory\x1b[2J" + std::string(5000, 'x')});
  step();
  EXPECT_THAT(log_.lines().back(), HasSubstr("rank 0: no?memory?[2Jxxx"));
  EXPECT_LT(log_.lines().back().size(), 1200U);
}

TEST_F(ReprofilingTest, WhatItTakesIsAShareOfTraining) {
  Reprofiling frugal(options(0.05), model_, log_.sink());
  step(frugal);
  double spent = 0;
  int answered = 0;
  for (int i = 0; i < 40; ++i) {
    drift();
    now_.advance(seconds(20));
    if (const double granted = step(frugal); granted > 0) {
      spent += granted;
      answered += 1;
      now_.advance(milliseconds(static_cast<std::int64_t>(1e3 * granted) + 1));
      answer(frugal, {profile(), granted, {}});
    }
    EXPECT_LE(spent, 0.05 * 32 * (i + 1));
  }
  EXPECT_GT(answered, 3);
}

// A trainer was so slow that the node has asked again.
TEST_F(ReprofilingTest, AnAnswerToAnEarlierQuestionIsNone) {
  step();
  drift();
  ASSERT_GT(step(), 0);
  const Position first = asked_;
  drift();
  now_.advance(seconds(100));  // beyond what the first question spends of the budget
  for (int i = 1; i < 64; ++i) EXPECT_EQ(step(), 0);
  ASSERT_GT(step(), 0);
  const Position second = std::exchange(asked_, first);
  ASSERT_NE(first, second);
  answer({profile(), 1, {}});
  step();
  EXPECT_EQ(profiles(), 0U);
  EXPECT_THAT(log_.lines().back(), HasSubstr("the node did not ask for it now"));
  asked_ = second;
  answer({profile(), 1, {}});
  step();
  EXPECT_EQ(profiles(), 1U);
}

// A pipeline of two stages with the encoder on ranks of its own.
class StagesTest : public ReprofilingTest {
 protected:
  void SetUp() override {
    Layout layout;
    layout.llm.pipeline = 2;
    layout.microbatches = 2;
    plan_options_.layout = std::make_shared<const Layout>(layout);
    plan_options_.layout_file = "layout.json";
    plan_options_.ranks = 1;
    plan_options_.microbatches = 2;
    layout_ = ServedLayout::create(plan_options_, profile_, {}).value();
    Reprofiling::Options with_stages = options();
    with_stages.layout = layout_.get();
    stages_.emplace(std::move(with_stages), model_, log_.sink());
    step();
    drift();
  }
  double step() { return ReprofilingTest::step(*stages_); }
  // Answers with so many seconds of a layer for 1,000 units and as many for 2,000.
  static std::string layers(const char* module, double layer_s, std::int64_t longest = 2000) {
    const auto point = [layer_s](std::int64_t units) {
      return fmt::format(R"({{"sequences": 1, "units": {}, "units_squared": {}, "forward_s": {}, )"
                         R"("backward_s": {}, "spread": 0.01, "peak_bytes": 0}})",
                         units, units * units, layer_s / 3, 2 * layer_s / 3);
    };
    return fmt::format(R"({{"version": 1, "kind": "layer profile", "unit": "seconds", )"
                       R"("modules": {{"{}": {{"layers": 1, "points": [{}, {}]}}}}}})",
                       module, point(1000), point(longest));
  }
  void answer(std::int32_t rank, const std::string& profile) {
    ReprofilingTest::answer(*stages_, {profile, 0.25, {}}, rank);
  }
  std::string kept() {
    EXPECT_EQ(profiles(), 0U);
    return log_.lines().back();
  }

  PlanOptions plan_options_;
  std::unique_ptr<const ServedLayout> layout_;
  std::optional<Reprofiling> stages_;
};

TEST_F(StagesTest, PartsOfAllStagesAreAdoptedAsOneProfile) {
  ASSERT_GT(step(), 0);
  EXPECT_THAT(log_.lines(), ElementsAre("asking 3 receivers to measure their layers"));
  answer(0, layers("vision", 0.001));
  answer(1, layers("llm", 0.002));
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(profiles(), 0U);
  answer(2, layers("llm", 0.002));
  step();
  ASSERT_EQ(profiles(), 1U);
  EXPECT_THAT(log_.lines().back(), HasSubstr("model profile of the layers of 3 receivers adopted"));
  const CostProfile profile = model_.profile();
  EXPECT_NEAR(profile.modules[0].points.at(0).seconds(), 27 * 0.001, 1e-9);
  const double head = JobModel::create(profile_)->llm_head_layers();
  EXPECT_NEAR(profile.modules[2].points.at(0).seconds(), (28 + head) * 0.002, 1e-9);
  EXPECT_EQ(profile.modules[1].coefficients, profile_.modules[1].coefficients);
}

TEST_F(StagesTest, AFailureOfOneRankKeepsTheProfile) {
  ASSERT_GT(step(), 0);
  answer(0, layers("vision", 0.001));
  answer(1, layers("llm", 0.002));
  ReprofilingTest::answer(*stages_, {{}, 0.25, "RuntimeError: out of memory"}, 2);
  step();
  EXPECT_EQ(kept(),
            "model profile: the trainer at llm, data 0, stage 1, tensor 0: RuntimeError: out of "
            "memory; the "
            "node keeps the present profile");
}

TEST_F(StagesTest, AStageThatDoesNotAnswerIsNamed) {
  ASSERT_GT(step(), 0);
  answer(0, layers("vision", 0.001));
  answer(2, layers("llm", 0.002));
  for (int i = 0; i < 70; ++i) step();
  EXPECT_THAT(kept(),
              HasSubstr("no answer of the trainer at llm, data 0, stage 0, tensor 0 within 64"));
  answer(1, layers("llm", 0.002));
  step();
  EXPECT_THAT(kept(),
              HasSubstr("model profile of the trainer at llm, data 0, stage 0, tensor 0 ignored"));
}

TEST_F(StagesTest, StagesThatDisagreeKeepTheProfile) {
  ASSERT_GT(step(), 0);
  answer(0, layers("vision", 0.001));
  answer(1, layers("llm", 0.002));
  answer(2, layers("llm", 0.02));
  step();
  EXPECT_THAT(kept(),
              HasSubstr("a layer of llm takes 10.0 times as long for the trainer at llm, "
                        "data 0, stage 1, tensor 0 as for the trainer at llm, data 0, stage 0"));
}

TEST_F(StagesTest, AWholeModelsProfileIsNoPart) {
  ASSERT_GT(step(), 0);
  for (const std::int32_t rank : {0, 1, 2}) answer(rank, profile());
  step();
  EXPECT_THAT(kept(),
              HasSubstr("the trainer at encoder, data 0, stage 0, tensor 0: it is a whole model's "
                        "profile: return that of the stage's layers"));
}

}  // namespace
}  // namespace isocost
