#include "loader/node/internal/measurement.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "tests/loader/node/node_support.h"

namespace isocost {
namespace {

TEST(Measurement, HasTheMicrobatchsLoadAndTheReportedSeconds) {
  const auto step = make_step(3, 5, 2, 2);
  step->plan.bins[3].shape = {{CostModule::kLlm, 2, 0.5F}};
  Report report;
  report.position = {3, 5, 1};
  report.seconds = {-1, 0.5, 1.5};
  const Measurement measurement = measurement_of(step->plan, 1, report);
  EXPECT_EQ(measurement.rank, 1);
  EXPECT_EQ(measurement.seconds, report.seconds);
  EXPECT_EQ(measurement.load[CostModule::kLlm].units, 100);
  EXPECT_EQ(measurement.shape.data(), step->plan.bins[3].shape.data());
  EXPECT_EQ(measurement.forward_share, kNotMeasured);
}

TEST(Measurement, StepsGrowThroughEpochs) {
  const auto step = make_step(0, 0, 1, 1);
  Report report;
  report.position = {0, 900, 0};
  const std::uint64_t last = measurement_of(step->plan, 0, report).step;
  report.position = {1, 0, 0};
  EXPECT_GT(measurement_of(step->plan, 0, report).step, last);
}

// Ranks may be a step behind, also where an epoch ends.
TEST(Measurement, TheLastStepIsOpenUntilTheOneAfterTheNext) {
  const std::uint64_t last = measured_step({0, 900, 0});
  EXPECT_GT(first_open_step({0, 902, 0}), last);
  EXPECT_LE(first_open_step({0, 901, 0}), last);
  EXPECT_LE(first_open_step({1, 0, 0}), last);
  EXPECT_GT(first_open_step({1, 1, 0}), last);
  EXPECT_EQ(first_open_step({0, 0, 0}), 0U);
}

TEST(Measurement, ForwardIsAShareOfTheMeasuredSeconds) {
  const auto step = make_step(0, 0, 1, 1);
  Report report;
  report.seconds = {-1, 1, 3};
  report.forward_s = 1;
  EXPECT_DOUBLE_EQ(measurement_of(step->plan, 0, report).forward_share, 0.25);
  report.seconds = {-1, -1, -1};
  EXPECT_EQ(measurement_of(step->plan, 0, report).forward_share, kNotMeasured);
}

// All seconds of a frozen stage are forward, which says nothing of the stages that are trained.
TEST(Measurement, AFrozenStageMeasuresNoForwardShare) {
  const auto step = make_step(0, 0, 1, 1);
  Receiver stage;
  stage.has_backward = false;
  step->plan.layout_receivers = std::span(&stage, 1);
  Report report;
  report.seconds = {-1, 1, 3};
  report.forward_s = 4;
  EXPECT_EQ(measurement_of(step->plan, 0, report).forward_share, kNotMeasured);
  stage.has_backward = true;
  EXPECT_DOUBLE_EQ(measurement_of(step->plan, 0, report).forward_share, 1);
}

}  // namespace
}  // namespace isocost
