#include "loader/node/internal/online_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/loader/node/online_model_fixture.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OnlineModelTest : public OnlineModelFixture {
 protected:
  static Measurement measured(double seconds) {
    Measurement measurement;
    measurement.load[CostModule::kLlm].add_sequence(1000);
    measurement.seconds = {kNotMeasured, kNotMeasured, seconds};
    return measurement;
  }
};

TEST_F(OnlineModelTest, LearnsFromWhatWasReportedWhenTheNextStepIsPlanned) {
  train(model_, 40, 3);
  double predicted = 0;
  const Measurement example = measured(1);
  EXPECT_TRUE(model_.plan([&](const CostModel& model) {
    predicted = model.predict_microbatch(example.load)[2];
    return Result<StepPlan>(StepPlan{});
  }));
  EXPECT_NEAR(predicted / CostModel(profile_, {}).predict_microbatch(example.load)[2], 3, 0.1);
  EXPECT_EQ(model_.progress().measurements, 320);
}

// `report` and `progress` return on another thread while the plan is being made.
TEST_F(OnlineModelTest, NothingWaitsForAPlan) {
  const auto step = plan(model_);
  ASSERT_TRUE(model_.queue_measurement(measured(1), step));
  OnlineModel::Progress during;
  ASSERT_TRUE(model_.plan([&](const CostModel&) {
    std::jthread([&] {
      EXPECT_TRUE(model_.queue_measurement(measured(1), step));
      during = model_.progress();
    }).join();
    return Result<StepPlan>(StepPlan{});
  }));
  EXPECT_EQ(during.measurements, 1);  // as of the plan's start
  EXPECT_EQ(model_.progress().measurements, 2);
}

TEST_F(OnlineModelTest, TakesReportsFromManyThreadsWhileItPlans) {
  const auto step = plan(model_);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          EXPECT_TRUE(model_.queue_measurement(measured(1), step));
          model_.progress();
        }
      });
    }
    for (int i = 0; i < 20; ++i) plan(model_);
  }
  EXPECT_EQ(model_.progress().measurements, 300);
}

TEST_F(OnlineModelTest, AFloodOfReportsIsDropped) {
  const auto step = plan(model_);
  for (int i = 0; i < 65'536; ++i) ASSERT_TRUE(model_.queue_measurement(measured(-2), step));
  EXPECT_FALSE(model_.queue_measurement(measured(-2), step));
  plan(model_);
  EXPECT_TRUE(model_.queue_measurement(measured(-2), step));
}

TEST_F(OnlineModelTest, LogsRefusedMeasurementsEverMoreRarely) {
  const auto step = plan(model_);
  for (int i = 0; i < 5; ++i) model_.queue_measurement(measured(-2), step);
  plan(model_);
  EXPECT_EQ(model_.progress().rejected, 5);
  ASSERT_EQ(model_log_.lines().size(), 3U);  // the 1st, 2nd and 4th
  EXPECT_THAT(model_log_.lines()[2], HasSubstr("4 measurements rejected so far"));
}

TEST_F(OnlineModelTest, StepsOfAnEarlierJobTeachNothing) {
  const auto before = plan(model_);
  model_.begin_job();
  ASSERT_TRUE(model_.queue_measurement(measured(1), before));
  EXPECT_EQ(model_.progress().measurements, 0);
  EXPECT_FALSE(model_.has_measurements());
  ASSERT_TRUE(model_.queue_measurement(measured(1), plan(model_)));
  EXPECT_EQ(model_.progress().measurements, 1);
  EXPECT_TRUE(model_.has_measurements());
}

TEST_F(OnlineModelTest, NamesTheModuleThatDrifted) {
  train(model_, 40, 1);
  EXPECT_THAT(model_log_.lines(), IsEmpty());
  train(model_, 6, 1.5);
  plan(model_);
  EXPECT_THAT(model_log_.lines(),
              ElementsAre("Model drift detected in module llm: measured 1.50x predicted over the "
                          "last 3 steps."));
}

TEST_F(OnlineModelTest, AnAdoptedProfileReplacesTheModelAndKeepsTheCounts) {
  train(model_, 3, 1);
  const auto before = plan(model_);
  CostProfile other = profile_;
  other.modules[2].coefficients.per_unit *= 10;
  ASSERT_TRUE(model_.adopt(other.to_json()));
  EXPECT_EQ(model_.progress().profiles, 1U);
  EXPECT_EQ(model_.progress().measurements, 24);
  ASSERT_TRUE(model_.queue_measurement(measured(1), before));
  EXPECT_EQ(model_.progress().measurements, 24);  // of the model before
  EXPECT_FALSE(model_.adopt("{}").has_value());
  EXPECT_EQ(model_.progress().profiles, 1U);
}

TEST_F(OnlineModelTest, AStateGoesOnInAnotherNode) {
  EXPECT_EQ(model_.save_state(), "");
  CostProfile other = profile_;
  other.modules[2].coefficients.per_unit *= 10;
  ASSERT_TRUE(model_.adopt(other.to_json()));
  train(model_, 20, 3);
  plan(model_);
  const std::string state = model_.save_state();
  OnlineModel restored(profile_, {}, {});
  ASSERT_TRUE(restored.restore_state(state));
  EXPECT_EQ(restored.save_state(), state);
  EXPECT_FALSE(restored.has_measurements());
}

TEST_F(OnlineModelTest, RefusesAStateThatDoesNotFit) {
  train(model_, 20, 3);
  plan(model_);
  const std::string state = model_.save_state();
  CostProfile other = profile_;
  other.modules[2].coefficients.per_unit *= 2;
  OnlineModel another(other, {}, {});
  EXPECT_EQ(another.restore_state(state).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(model_.restore_state("isocost learned 1 x").error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(model_.restore_state("something").error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(model_.restore_state(state.substr(0, state.find('\0'))).error().code(),
            ErrorCode::kCorrupt);
  EXPECT_EQ(model_.save_state(), state);
}

}  // namespace
}  // namespace isocost
