#include "cli/lab/stage_microbatch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "costmodel/cost_model.h"

namespace isocost::cli {
namespace {

Route route(std::uint32_t sample, std::uint32_t replica, std::uint32_t microbatch) {
  return {.sample = sample, .replica = replica, .microbatch = microbatch};
}

TEST(StageMicrobatch, ReportsModelledSecondsByThePredictedSharesOfTheModules) {
  StageMicrobatch microbatch;
  microbatch.report.position = {1, 2, 3};
  microbatch.report.seconds = {3, 0, 1};
  microbatch.seconds = 8;
  microbatch.forward_s = 2;
  const Report report = report_of(microbatch);
  EXPECT_EQ(report.position, (Position{1, 2, 3}));
  EXPECT_EQ(report.seconds, (std::array<double, kModules>{6, kNotMeasured, 2}));
  EXPECT_EQ(report.forward_s, 2);
}

TEST(StageMicrobatch, SecondsAreReportedWithoutThoseOfMeasuring) {
  StageMicrobatch microbatch;
  microbatch.report.seconds = {3, 0, 1};
  microbatch.measuring = 0.25;
  microbatch.seconds = 10;
  microbatch.forward_s = 5;
  const Report report = report_of(microbatch);
  EXPECT_EQ(report.seconds, (std::array<double, kModules>{6, kNotMeasured, 2}));
  EXPECT_EQ(report.forward_s, 4);
  EXPECT_EQ(report.measuring_s, 2);
}

TEST(StageMicrobatch, AnomaliesAddSecondsOfTheirSamplesInTheLlm) {
  const std::vector<Load> loads = {load_of_counts(0, 100), load_of_counts(0, 10)};
  const SamplePrices prices(CostProfile::stated_default());
  MicrobatchHeader header;
  for (const std::uint64_t id : {0U, 1U, 3U}) header.samples.push_back({.id = id});
  EmulatedAnomalies anomalies{.factor = 1.5, .shortest = 5, .longest = 20};
  const double of_one = prices.of(loads[1]).llm_s;
  EXPECT_DOUBLE_EQ(anomalous_s(anomalies, header, loads, prices), 2 * 0.5 * of_one);
  anomalies.longest = 4;
  EXPECT_EQ(anomalous_s(anomalies, header, loads, prices), 0);
}

TEST(StageMicrobatch, ReportsNothingWhereNothingWasPredicted) {
  StageMicrobatch microbatch;
  microbatch.report.seconds = {0, 0, 0};
  const Report report = report_of(microbatch);
  EXPECT_EQ(report.seconds,
            (std::array<double, kModules>{kNotMeasured, kNotMeasured, kNotMeasured}));
  EXPECT_EQ(report.forward_s, kNotMeasured);
}

// Samples 0 and 2 come from microbatch 4 of encoder replica 1, sample 1 from another; sample 0 has
// a picture and a sound, and counts once.
TEST(StageMicrobatch, AFeedHasTheBytesOfTheSamplesThatHaveRowsInIt) {
  const std::vector<Load> loads = {load_of_counts(0, 100), load_of_counts(0, 10)};
  const SamplePrices prices(CostProfile::stated_default());
  MicrobatchHeader header;
  for (const std::uint64_t id : {0U, 1U, 3U}) header.samples.push_back({.id = id});
  header.routes = {route(0, 1, 4), route(0, 1, 4), route(1, 0, 2), route(2, 1, 4)};
  const std::vector<EmulatedFeed> feeds = feeds_of(header, loads, prices, 2);
  ASSERT_EQ(feeds.size(), 2U);
  EXPECT_EQ(feeds[0].encoder_replica, 0U);
  EXPECT_EQ(feeds[0].slot, 2U);
  EXPECT_EQ(feeds[0].bytes, 2 * 10);
  EXPECT_EQ(feeds[1].encoder_replica, 1U);
  EXPECT_EQ(feeds[1].slot, 4U);
  EXPECT_EQ(feeds[1].bytes, 2 * (100 + 10));  // samples 0 and 3: the loads repeat
}

TEST(StageMicrobatch, FeedsTheRangeOfItsRoutes) {
  std::vector<StageMicrobatch> microbatches(4);
  microbatches[1].routes = {route(0, 0, 3), route(1, 1, 1)};
  microbatches[3].routes = {route(0, 0, 2)};
  const std::vector<FedMicrobatches> fed = fed_by(microbatches);
  ASSERT_EQ(fed.size(), 4U);
  const auto is = [&](std::size_t i, std::uint32_t first, std::uint32_t last) {
    EXPECT_EQ(fed[i].first, first) << i;
    EXPECT_EQ(fed[i].last, last) << i;
  };
  is(0, 0, 0);
  is(1, 1, 3);
  is(2, 1, 3);  // without media: as the one before it
  is(3, 2, 2);
}

}  // namespace
}  // namespace isocost::cli
