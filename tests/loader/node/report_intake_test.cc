#include "loader/node/internal/report_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "loader/plan/served_layout.h"
#include "tests/loader/node/node_support.h"
#include "tests/support/log_lines.h"
#include "tests/support/manual_clock.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NodeOptions some_options() {
  NodeOptions options;
  options.data = "shards";
  return options;
}

Report report_of(std::uint32_t step, std::uint32_t microbatch, double llm) {
  Report report;
  report.position = {0, step, microbatch};
  report.seconds = {-1, -1, llm};
  return report;
}

class ReportIntakeTest : public testing::Test {
 protected:
  ReportIntakeTest() {
    Hello hello;
    hello.world_size = 1;
    const std::uint64_t job = job_.begin(hello, true).value().id;
    EXPECT_TRUE(job_.push(job, make_step(0, 0, 1, 2)));
  }

  ManualClock clock_;
  NodeOptions options_ = some_options();
  CurrentJob job_{{JoinRequirements{options_}, 2, clock_.clock()}};
  LogLines log_;
  OnlineModel model_{CostProfile::stated_default(), {}, log_.sink()};
  TrainingMeter meter_;
  Timeline timeline_{nullptr};
  ReportIntake reports_{{job_, model_, meter_, &timeline_,
                         [](std::int32_t rank) { return "rank " + std::to_string(rank); },
                         log_.sink()}};
};

TEST_F(ReportIntakeTest, PassesReportsOn) {
  reports_.take(0, report_of(0, 0, 0.5));
  reports_.take(0, report_of(0, 1, 1.5));
  EXPECT_EQ(reports_.dropped(), 0);
  EXPECT_EQ(model_.progress().measurements, 2);
  EXPECT_EQ(meter_.totals().measured_steps, 1U);
  EXPECT_EQ(meter_.totals().ranks.front().measured[2], 2);
  EXPECT_THAT(timeline_.svg(), HasSubstr("measured"));
  EXPECT_THAT(log_.lines(), ElementsAre());
}

TEST_F(ReportIntakeTest, DropsAReportOnAStepThatIsNotHeld) {
  reports_.take(0, report_of(1, 0, 0.5));
  EXPECT_EQ(reports_.dropped(), 1);
  EXPECT_THAT(log_.lines(), ElementsAre("rank 0: report on epoch 0, step 1 dropped: the step is no "
                                        "longer held; 1 report dropped so far"));
}

TEST_F(ReportIntakeTest, DropsSecondsThatWereReportedBefore) {
  reports_.take(0, report_of(0, 0, 0.5));
  reports_.take(0, report_of(0, 0, 0.7));
  EXPECT_EQ(reports_.dropped(), 1);
  EXPECT_EQ(meter_.totals().ranks.front().measured[2], 0.5);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("reported before")));
}

TEST_F(ReportIntakeTest, DropsSecondsOfAModuleThatTheStageHasNot) {
  std::vector<Receiver> receivers(1);
  receivers[0].module = LayoutModule::kEncoder;
  receivers[0].work.shares = {1, 1, 0};
  auto step = make_step(0, 1, 1, 2);
  step->plan.layout_receivers = receivers;
  step->plan.encoder = {{{}, {}}};
  step->plan.encoder[0][0].predicted = {1, 0, 0};
  ASSERT_TRUE(job_.push(1, step));
  std::vector<std::string> told;
  ReportIntake reports({job_, model_, meter_, nullptr, [](std::int32_t) { return "the encoder"; },
                        log_.sink(),
                        [&](std::int32_t rank, const std::string& text) {
                          told.push_back(std::to_string(rank) + " " + text);
                        }});
  reports.take(0, report_of(1, 0, 0.5));
  EXPECT_EQ(reports.dropped(), 1);
  EXPECT_EQ(model_.progress().measurements, 0);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("it has seconds of llm, of which this stage has "
                                                  "no layers")));
  EXPECT_THAT(told, ElementsAre(HasSubstr("0 the encoder: report on epoch 0, step 1 dropped")));
  Report of_encoder = report_of(1, 0, 0);
  of_encoder.seconds = {0.5, kNotMeasured, 0};
  reports.take(0, of_encoder);
  EXPECT_EQ(reports.dropped(), 1);
}

TEST_F(ReportIntakeTest, LogsFewOfManyDroppedReports) {
  for (int i = 0; i < 100; ++i) reports_.take(0, report_of(9, 0, 0.5));
  EXPECT_EQ(reports_.dropped(), 100);
  EXPECT_EQ(log_.lines().size(), 7U);  // the 1st, 2nd, 4th ... 64th
}

// The sink asks what the metrics ask: a lock that is held while logging would never be released.
TEST_F(ReportIntakeTest, LogsWithoutALock) {
  std::int64_t seen = 0;
  ReportIntake reports({job_, model_, meter_, nullptr, [](std::int32_t) { return "rank"; },
                        [&](LogLevel, std::string_view) {
                          std::jthread([&] {
                            seen = reports.dropped();
                            job_.depth();
                          }).join();
                        }});
  reports.take(0, report_of(5, 0, 1));
  EXPECT_EQ(seen, 1);
}

// A client that obeys reports how long it waited, with the last microbatch of the step.
TEST_F(ReportIntakeTest, AStepWhoseSecondsAreNotWantedSaysHowLongItsRankWaited) {
  auto step = make_step(0, 1, 1, 2);
  step->seconds_wanted = false;
  ASSERT_TRUE(job_.push(1, step));
  Report report{.position = {0, 1, 1}};
  report.data_wait_s = 0.25;
  reports_.take(0, report);
  EXPECT_EQ(meter_.totals().ranks.front().data_wait, 0.25);
  EXPECT_EQ(meter_.totals().measured_steps, 0U);
  EXPECT_EQ(model_.progress().measurements, 0);
  EXPECT_EQ(reports_.dropped(), 0);
  EXPECT_THAT(log_.lines(), ElementsAre());
}

TEST_F(ReportIntakeTest, SecondsThatWereNotAskedForAreDroppedAndSaid) {
  auto step = make_step(0, 1, 1, 2);
  step->seconds_wanted = false;
  ASSERT_TRUE(job_.push(1, step));
  Report report = report_of(1, 0, 0.5);
  report.data_wait_s = 0.25;
  reports_.take(0, report);
  reports_.take(0, report_of(1, 1, 0.5));
  EXPECT_EQ(meter_.totals().ranks.front().data_wait, 0.25);
  EXPECT_EQ(meter_.totals().ranks.front().measured[2], 0);
  EXPECT_EQ(model_.progress().measurements, 0);
  EXPECT_EQ(reports_.dropped(), 2);
  EXPECT_THAT(log_.lines(),
              ElementsAre(HasSubstr("step 1 dropped: the node did not ask for the seconds of this "
                                    "step (seconds_wanted); 1 report"),
                          HasSubstr("2 reports dropped so far")));
}

}  // namespace
}  // namespace isocost
