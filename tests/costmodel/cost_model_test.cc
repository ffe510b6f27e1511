#include "costmodel/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/costmodel/support.h"

namespace isocost {
namespace {

using testing::HasSubstr;

TEST(Predict, SumsTheTermsAndIsZeroForAnEmptyLoad) {
  const ModuleCoefficients coefficients{1, 10, 100, 1000};
  ModuleLoad load;
  EXPECT_EQ(predict(coefficients, load).count(), 0);
  load.add_sequence(2);
  load.add_sequence(3);
  EXPECT_EQ(predict(coefficients, load).count(), 1 + 20 + 500 + 13'000);
}

TEST(CostModel, SamplesAddUpToTheirMicrobatchExceptForFixedSeconds) {
  const CostModel model(CostProfile::stated_default(), {});
  Random random(1);
  const Load a = random_microbatch(random);
  const Load b = random_microbatch(random);
  Load both = a;
  both += b;
  const auto whole = model.predict_microbatch(both);
  for (std::size_t i = 0; i < kModules; ++i) {
    const double parts = model.predict_sample(a)[i] + model.predict_sample(b)[i];
    const double fixed = CostProfile::stated_default().modules[i].coefficients.per_microbatch;
    EXPECT_NEAR(whole[i] / (parts + fixed), 1, 1e-6);
  }
}

TEST(CostModel, PadsPaddedModulesToTheLongestSequence) {
  CostModel::Options options;
  options.padded[static_cast<std::size_t>(CostModule::kLlm)] = true;
  const CostModel model(CostProfile::stated_default(), options);
  std::vector<Load> samples(3);
  for (Load& sample : samples) sample[CostModule::kVision].add_sequence(256);
  samples[0][CostModule::kLlm].add_sequence(100);
  samples[1][CostModule::kLlm].add_sequence(1000);  // the third sample has no text
  const std::vector<Load> run = model.as_run(samples);
  EXPECT_EQ(run[0][CostModule::kLlm], run[1][CostModule::kLlm]);
  EXPECT_EQ(run[1][CostModule::kLlm], samples[1][CostModule::kLlm]);
  EXPECT_EQ(run[2][CostModule::kLlm], ModuleLoad());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(run[i][CostModule::kVision], samples[i][CostModule::kVision]);
  }
  EXPECT_EQ(CostModel(CostProfile::stated_default(), {}).as_run(samples), samples);
}

TEST(CostModel, DropsAndCountsInvalidMeasurements) {
  CostModel model(CostProfile::stated_default(), {});
  Random random(2);
  const Load load = random_microbatch(random);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity, 1e9, -5.0, -1e300, 5e-324, 1e-10}) {
    const auto refused = model.observe({load, {1, bad, 1}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr("audio"));
  }
  Load negative = load;
  negative[CostModule::kLlm].units = -1;
  EXPECT_FALSE(model.observe({negative, {1, 1, 1}}));
  EXPECT_EQ(model.rejected(), 9);
  EXPECT_EQ(model.measurements(), 0);
  EXPECT_EQ(model.predict_sample(load),
            CostModel(CostProfile::stated_default(), {}).predict_sample(load));
}

// Observes times that are multiples of what the built-in profile predicts for one load.
class Reports {
 public:
  Status observe(double times, std::int32_t rank, std::uint64_t step) {
    const ModuleSeconds seconds{kNotMeasured, kNotMeasured, times * profile_s_};
    return model.observe({.load = load_, .seconds = seconds, .rank = rank, .step = step});
  }
  /// Returns the prediction as a multiple of the profile's.
  double predicted() const { return model.predict_microbatch(load_)[2] / profile_s_; }

  CostModel model{CostProfile::stated_default(), {}};

 private:
  static Load tokens(std::int64_t count) {
    Load load;
    load[CostModule::kLlm].add_sequence(count);
    return load;
  }

  const Load load_ = tokens(100);
  const double profile_s_ = model.predict_microbatch(load_)[2];
};

// A process that was stopped, or a clock that jumped, measures such a time once.
TEST(CostModel, ATimeFarBeyondItsPredictionCountsFromTheSecondOneOn) {
  Reports reports;
  EXPECT_TRUE(reports.observe(1, 0, 1));
  const Status first = reports.observe(101, 0, 2);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(first.error().message(), HasSubstr("s of llm are over 100 times the expected"));
  EXPECT_TRUE(reports.observe(1, 0, 3));
  EXPECT_FALSE(reports.observe(1e4, 0, 4)) << "one between them was as predicted";
  EXPECT_FALSE(reports.observe(1e4, 1, 4)) << "another rank's first";
  EXPECT_TRUE(reports.observe(1e4, 0, 5)) << "the prediction is wrong";
  EXPECT_TRUE(reports.observe(1e4, 0, 6));
  EXPECT_EQ(reports.model.rejected(), 3);
  EXPECT_EQ(reports.model.measurements(), 4);
  reports.model.begin_job();
  EXPECT_FALSE(reports.observe(2e6, 0, 0)) << "another process may have the rank";
}

TEST(CostModel, AnAbsurdTimeEveryOtherStepLeavesPredictionsAlone) {
  Reports reports;
  for (std::uint64_t step = 0; step < 40; ++step) {
    (void)reports.observe(step % 2 == 1 ? 1e6 : 1, 0, step);
    reports.model.update();
  }
  EXPECT_EQ(reports.model.rejected(), 20);
  EXPECT_NEAR(reports.predicted(), 1, 0.01);
}

TEST(CostModel, AnAbsurdFirstTimeLeavesPredictionsAlone) {
  Reports reports;
  EXPECT_FALSE(reports.observe(1e6, 0, 0));
  reports.model.update();
  EXPECT_DOUBLE_EQ(reports.predicted(), 1);
  EXPECT_TRUE(reports.observe(0.5, 0, 1));
  EXPECT_FALSE(reports.observe(1e6, 0, 2)) << "the one between them counted";
}

// The profile's scale is wrong on all ranks. One measurement shows it, although ranks begin
// together and predictions are corrected only afterwards.
TEST(CostModel, AMachineFarSlowerThanTheProfileLosesOneMeasurement) {
  Reports reports;
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (std::int32_t rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(reports.observe(200, rank, step).has_value(), step > 0 || rank > 0);
    }
    reports.model.update();
  }
  EXPECT_EQ(reports.model.rejected(), 1);
  EXPECT_NEAR(reports.predicted(), 200, 10);
  EXPECT_FALSE(reports.observe(2e5, 3, 10));
}

TEST(CostModel, AMachineFarFasterThanTheProfileIsJudgedByItsOwnTimes) {
  Reports reports;
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (std::int32_t rank = 0; rank < 8; ++rank) EXPECT_TRUE(reports.observe(5e-3, rank, step));
    reports.model.update();
  }
  EXPECT_NEAR(reports.predicted(), 5e-3, 5e-4);
  EXPECT_FALSE(reports.observe(1, 3, 10)) << "the profile's seconds are 200 times too many here";
  EXPECT_TRUE(reports.observe(5e-3, 4, 10));
}

TEST(CostModel, LearnsTheForwardShare) {
  CostModel model(CostProfile::stated_default(), {});
  EXPECT_DOUBLE_EQ(model.forward_share(), 1.0 / 3);
  Random random(4);
  Measurement measurement{random_microbatch(random), {0.5, kNotMeasured, 1.5}};
  ASSERT_TRUE(model.observe(measurement));
  EXPECT_DOUBLE_EQ(model.forward_share(), 1.0 / 3) << "not measured";
  measurement.forward_share = 0.25;
  ASSERT_TRUE(model.observe(measurement));
  EXPECT_DOUBLE_EQ(model.forward_share(), 0.25);
  measurement.forward_share = 0.5;  // for example with activation checkpointing
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(model.observe(measurement));
  EXPECT_NEAR(model.forward_share(), 0.5, 0.002);
  for (const double share : {-0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    measurement.forward_share = share;
    EXPECT_THAT(model.observe(measurement).error().message(), HasSubstr("forward share"));
  }
  CostModel uncorrected(CostProfile::stated_default(), {.correct = false});
  measurement.forward_share = 0.9;
  ASSERT_TRUE(uncorrected.observe(measurement));
  EXPECT_DOUBLE_EQ(uncorrected.forward_share(), 1.0 / 3) << "plans follow the seed alone then";
}

TEST(CostModel, OneExtremeMeasurementDoesNotDominateTheError) {
  CostModel model(CostProfile::stated_default(), {});
  Random random(4);
  const Load load = random_microbatch(random);
  ASSERT_TRUE(model.observe({load, {-1, -1, 1e-9}}));
  EXPECT_EQ(model.prediction_error_ratio()[2], 10);
}

TEST(CostModel, ModulesThatWereNotMeasuredLearnNothing) {
  CostModel model(CostProfile::stated_default(), {});
  Random random(3);
  for (int n = 0; n < 20; ++n) {
    Load load = random_microbatch(random);
    load[CostModule::kAudio] = {};  // no load: its seconds are not its cost
    learn(model, {load, {-1, 0.5, 20}});
  }
  const Load sample = random_microbatch(random);
  const ModuleSeconds before = CostModel(CostProfile::stated_default(), {}).predict_sample(sample);
  EXPECT_EQ(model.predict_sample(sample)[0], before[0]);
  EXPECT_EQ(model.predict_sample(sample)[1], before[1]);
  EXPECT_NE(model.predict_sample(sample)[2], before[2]);
  EXPECT_TRUE(std::isnan(model.prediction_error_ratio()[0]));
  EXPECT_TRUE(std::isnan(model.prediction_error_ratio()[1]));
  EXPECT_FALSE(std::isnan(model.prediction_error_ratio()[2]));
  EXPECT_EQ(model.measurements(), 20);
}

TEST(CostModel, WithoutCorrectionTheProfileIsUsedAndErrorsAreReported) {
  Machine machine{.hidden = stated_coefficients(), .spread = 0};
  for (ModuleCoefficients& module : machine.hidden) {
    module.per_microbatch *= 2;
    module.per_unit *= 2;
    module.per_unit_squared *= 2;
  }
  CostModel model(CostProfile::stated_default(), {.correct = false});
  Random random(4);
  for (int n = 0; n < 300; ++n) {
    train(model, machine, random);
  }
  for (const double error : model.prediction_error_ratio()) EXPECT_NEAR(error, 0.5, 1e-6);
  const Load load = random_microbatch(random);
  EXPECT_EQ(model.predict_sample(load),
            CostModel(CostProfile::stated_default(), {}).predict_sample(load));
}

TEST(CostModel, ReportsTheErrorOfPredictionsMadeBeforeMeasurements) {
  const Machine machine = slow_machine();
  CostModel model(CostProfile::stated_default(), {});
  Random random(5);
  train(model, machine, random);  // refused: the machine is a thousand times slower
  train(model, machine, random);
  for (const double error : model.prediction_error_ratio()) EXPECT_GT(error, 0.9);
  for (int n = 0; n < 400; ++n) {
    train(model, machine, random);
  }
  // The cold phase has left the window; the remaining error is the noise of the measurements.
  for (const double error : model.prediction_error_ratio()) EXPECT_NEAR(error, 0.024, 0.01);
}

TEST(CostModel, TheSameMeasurementsGiveTheSameCoefficients) {
  const auto learn = [] {
    CostModel model(CostProfile::stated_default(), {});
    Random random(6);
    const Machine machine = slow_machine();
    for (int n = 0; n < 100; ++n) {
      observe(model, machine.measure(random_microbatch(random), random));
    }
    return model.predict_microbatch(random_microbatch(random));
  };
  EXPECT_EQ(learn(), learn());
}

TEST(CostModel, AProfileOfZerosStillLearns) {
  const Machine machine = slow_machine();
  CostModel model(CostProfile{}, {});
  Random random(7);
  for (int n = 0; n < 100; ++n) {
    train(model, machine, random);
  }
  EXPECT_LE(worst_error(model, machine, 99), 0.05);
}

}  // namespace
}  // namespace isocost
