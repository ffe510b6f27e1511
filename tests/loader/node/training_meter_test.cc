#include "loader/node/internal/training_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace isocost {
namespace {

// [rank][microbatch] seconds of the LLM; the other modules have no load.
StepPlan plan_of(const std::vector<std::vector<double>>& seconds) {
  StepPlan plan;
  plan.microbatches = static_cast<std::uint32_t>(seconds.front().size());
  for (const auto& rank : seconds) {
    for (const double predicted : rank) {
      PlannedMicrobatch& bin = plan.bins.emplace_back();
      bin.samples.emplace_back();
      bin.load[CostModule::kLlm].add_sequence(100);
      bin.predicted = {0, 0, predicted};
    }
  }
  return plan;
}

void add_report(TrainingMeter& meter, const StepPlan& plan, std::int32_t rank,
                std::uint32_t microbatch, double llm, double wait = -1, std::uint32_t step = 0) {
  Report report;
  report.position = {0, step, microbatch};
  report.seconds = {-1, -1, llm};
  report.forward_s = llm / 4;
  report.data_wait_s = wait;
  meter.reported({1, 0, step}, rank, report, plan);
}

TEST(TrainingMeter, ImbalanceIsTheSlowestRankOverTheMean) {
  TrainingMeter meter;
  EXPECT_TRUE(std::isnan(meter.totals().imbalance));
  meter.planned(plan_of({{1, 2}, {2, 3}}));
  EXPECT_DOUBLE_EQ(meter.totals().imbalance, 5 / 4.0);
  EXPECT_EQ(meter.totals().ranks.size(), 2U);
  meter.planned(plan_of({{0}, {0}}));
  EXPECT_EQ(meter.totals().imbalance, 1);
}

TEST(TrainingMeter, SumsWhatWasPredictedAndMeasured) {
  TrainingMeter meter;
  const StepPlan plan = plan_of({{1, 2}, {2, 3}});
  add_report(meter, plan, 1, 0, 2.5, 0.5);
  add_report(meter, plan, 1, 1, 3.5, 0.25);
  const auto ranks = meter.totals().ranks;
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0], RankTotals{});
  EXPECT_EQ(ranks[1].predicted, (ModuleSeconds{0, 0, 5}));
  EXPECT_EQ(ranks[1].measured, (ModuleSeconds{0, 0, 6}));
  EXPECT_EQ(ranks[1].data_wait, 0.75);
  EXPECT_EQ(ranks[1].forward, 1.5);
  EXPECT_EQ(meter.totals().measured_steps, 0U);
}

TEST(TrainingMeter, WhatIsNoTimeCountsForNothing) {
  TrainingMeter meter;
  const StepPlan plan = plan_of({{1}});
  for (const double no_time : {-1.0, 0.0, 86'401.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
    add_report(meter, plan, 0, 0, no_time, no_time);
  }
  EXPECT_EQ(meter.totals().ranks.front(), RankTotals{});
  EXPECT_EQ(meter.totals().measured_steps, 0U);
}

TEST(TrainingMeter, IdleIsWhatTheSlowestRankTakesLonger) {
  TrainingMeter meter;
  const StepPlan plan = plan_of({{1, 1}, {1, 1}});
  add_report(meter, plan, 0, 0, 1);
  add_report(meter, plan, 1, 0, 2);
  add_report(meter, plan, 1, 1, 2);
  add_report(meter, plan, 1, 1, 9);  // again: the step is not whole by that
  EXPECT_EQ(meter.totals().measured_steps, 0U);
  add_report(meter, plan, 0, 1, 1.5);
  const auto totals = meter.totals();
  EXPECT_EQ(totals.measured_steps, 1U);
  EXPECT_EQ(totals.ranks[0].busy, 2.5);
  EXPECT_EQ(totals.ranks[0].idle, 1.5);
  EXPECT_EQ(totals.ranks[1].busy, 4);
  EXPECT_EQ(totals.ranks[1].idle, 0);
}

TEST(TrainingMeter, StepsThatAreNeverWholeAreForgotten) {
  TrainingMeter meter;
  const StepPlan plan = plan_of({{1}, {1}});
  for (std::uint32_t step = 0; step < 1000; ++step) add_report(meter, plan, 0, 0, 1, -1, step);
  add_report(meter, plan, 1, 0, 1, -1, 0);  // long gone
  EXPECT_EQ(meter.totals().measured_steps, 0U);
  add_report(meter, plan, 1, 0, 1, -1, 999);
  EXPECT_EQ(meter.totals().measured_steps, 1U);
}

TEST(TrainingMeter, RepeatsOfNoWeightAreNotCounted) {
  TrainingMeter meter;
  SealedStep step;
  step.plan = plan_of({{1}});
  step.plan.bins[0].samples = {{0, 1.0F}, {1, 0.5F}, {2, 0.0F}};
  meter.sent(step, 0, 0);
  EXPECT_EQ(meter.totals().samples_sent, 2U);
  EXPECT_EQ(meter.totals().microbatches_sent, 1U);
  EXPECT_TRUE(meter.totals().sources.empty());
}

TEST(TrainingMeter, SourcesOfAMixtureAreCountedApart) {
  TrainingMeter meter({"a", "b"});
  SealedStep step;
  step.plan = plan_of({{1, 1}});
  step.plan.bins[0].samples = {{0, 1.0F}, {2, 0.5F}, {1, 0.0F}};
  step.plan.bins[1].samples = {{1, 1.0F}};
  step.samples.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    step.samples[i].load.label_tokens = 10 * static_cast<std::int64_t>(i + 1);
  }
  step.sources = {{1, 0.25}, {0, 0.5}, {1, 2}};
  meter.sent(step, 0, 0);
  EXPECT_EQ(meter.totals().sources,
            (std::vector<SourceTotals>{{"a", 0, 0, 0}, {"b", 2, 40, 2.25}}));
  meter.sent(step, 0, 1);
  EXPECT_EQ(meter.totals().sources,
            (std::vector<SourceTotals>{{"a", 1, 20, 0.5}, {"b", 2, 40, 2.25}}));
  EXPECT_EQ(meter.totals().samples_sent, 3U);
}

}  // namespace
}  // namespace isocost
