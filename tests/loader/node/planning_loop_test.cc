#include "loader/node/internal/planning_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/loader/node/node_support.h"
#include "tests/support/log_lines.h"
#include "tests/support/manual_clock.h"

namespace isocost {
namespace {

using std::chrono_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;

NodeOptions some_options() {
  NodeOptions options;
  options.data = "shards";
  return options;
}

// One rank; room for all steps.
class PlanningLoopTest : public testing::Test {
 protected:
  PlanningInput input() {
    return {.begin_job = [this](const JobTerms& job) { began_.push_back(job.id); },
            .end_job = [this] { ++ended_; },
            .steps = [this](std::uint32_t) { return steps_; },
            .dropped = [this](std::uint32_t) { return dropped_; },
            .seal = [this](std::uint32_t epoch, std::uint32_t step,
                           const std::stop_token&) -> Result<std::shared_ptr<SealedStep>> {
              if (failure_) return *failure_;
              if (all_bad_ || bad_steps_.contains(step)) return std::shared_ptr<SealedStep>();
              auto sealed = make_step(epoch, step, 1, 2);
              if (step == 1) sealed->plan.over_limit = over_limit_;
              return sealed;
            },
            .bad = [] { return std::uint64_t{3}; },
            .last_bad = [this] { return last_bad_; }};
  }
  JobTerms begin(std::uint32_t epoch = 0, std::uint32_t step = 0) {
    Hello hello;
    hello.world_size = 1;
    hello.has_start = true;
    hello.start.epoch = epoch;
    hello.start.step = step;
    const JobTerms job = job_.begin(hello, true).value();
    job_.join({0, false, {}, 1});
    job_.grant(0, 1000);
    return job;
  }
  PlanningLoop loop(std::uint64_t epochs) {
    return PlanningLoop(input(), {epochs, "bad.jsonl"}, job_, meter_, log_.sink());
  }
  // "epoch.step.microbatch" and "end epoch/steps", "last" after the last; an error's message.
  std::vector<std::string> planned(const JobTerms& job) {
    std::vector<std::string> all;
    for (;;) {
      const auto next = job_.next(job.id, 0s, {});
      if (!next) {
        all.push_back(next.error().message());
        return all;
      }
      const auto* outgoing = std::get_if<CurrentJob::Outgoing>(&*next);
      if (outgoing == nullptr) return all;
      const DeliveryQueue::Delivery& delivery = outgoing->delivery;
      if (delivery.step != nullptr) {
        if (delivery.step->ends_epoch)
          ends_.emplace_back(delivery.step->epoch, delivery.step->step);
        all.push_back(std::to_string(delivery.step->epoch) + "." +
                      std::to_string(delivery.step->step) + "." +
                      std::to_string(delivery.microbatch));
      } else {
        all.push_back("end " + std::to_string(delivery.end.epoch) + "/" +
                      std::to_string(delivery.end.steps) +
                      (delivery.end.last_epoch ? " last" : ""));
        last_end_ = delivery.end;
      }
    }
  }

  std::uint64_t steps_ = 2;
  std::uint64_t dropped_ = 0;
  bool all_bad_ = false;
  std::set<std::uint32_t> bad_steps_;                          // of each epoch
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends_;  // steps that end their epoch
  std::optional<BadSample> last_bad_;
  std::optional<Error> failure_;
  std::vector<SampleOverLimit> over_limit_;  // of the second step of each epoch
  std::vector<std::uint64_t> began_;
  int ended_ = 0;
  EpochEnd last_end_;

  ManualClock clock_;
  NodeOptions options_ = some_options();
  CurrentJob job_{{JoinRequirements{options_}, 100, clock_.clock()}};
  TrainingMeter meter_;
  LogLines log_;
};

TEST_F(PlanningLoopTest, SamplesBeyondALimitAreToldAndCountedAndTrainingGoesOn) {
  over_limit_ = {{1, "has 9 LLM tokens, and max_tokens allows 8"}};
  const JobTerms job = begin();
  PlanningLoop planning = loop(2);
  planning.run(job, {});
  EXPECT_EQ(planned(job).back(), "end 1/2 last");
  EXPECT_THAT(log_.lines(),
              ElementsAre(HasSubstr("epoch 0, step 1: 1 sample in a microbatch beyond its limit"),
                          HasSubstr("sample 1 of the data set has 9 LLM tokens")));
  NodeSummary summary;
  planning.add_to(summary);
  EXPECT_EQ(summary.over_limit, 2U);
  EXPECT_THAT(summary.to_json(), HasSubstr("\"over_limit\": 2"));
}

TEST_F(PlanningLoopTest, PlansEveryStepOfEveryEpoch) {
  const JobTerms job = begin();
  PlanningLoop planning = loop(2);
  planning.run(job, {});
  EXPECT_THAT(began_, ElementsAre(job.id));
  EXPECT_EQ(ended_, 1);
  EXPECT_THAT(planned(job), ElementsAre("0.0.0", "0.0.1", "0.1.0", "0.1.1", "end 0/2", "1.0.0",
                                        "1.0.1", "1.1.0", "1.1.1", "end 1/2 last"));
  NodeSummary summary;
  planning.add_to(summary);
  EXPECT_EQ(summary.epochs, 2U);
  EXPECT_EQ(summary.steps, 4U);
  EXPECT_EQ(summary.planned, 8U);
  EXPECT_EQ(summary.repeated, 0U);
}

TEST_F(PlanningLoopTest, TheLastStepThatHasSamplesEndsItsEpoch) {
  steps_ = 4;
  const JobTerms job = begin();
  loop(2).run(job, {});
  planned(job);
  EXPECT_EQ(std::set(ends_.begin(), ends_.end()),
            (std::set<std::pair<std::uint32_t, std::uint32_t>>{{0, 3}, {1, 3}}));
}

TEST_F(PlanningLoopTest, WhereTheLastStepIsBadTheOneBeforeEndsTheEpoch) {
  steps_ = 4;
  bad_steps_ = {1, 3};
  const JobTerms job = begin();
  loop(1).run(job, {});
  EXPECT_THAT(planned(job), testing::Contains("0.2.1"));
  ASSERT_FALSE(ends_.empty());
  for (const auto& end : ends_) EXPECT_EQ(end, std::pair(0U, 2U));
}

TEST_F(PlanningLoopTest, GoesOnFromTheJobsStart) {
  const JobTerms job = begin(1, 1);
  PlanningLoop planning = loop(3);
  planning.run(job, {});
  EXPECT_THAT(planned(job), ElementsAre("1.1.0", "1.1.1", "end 1/2", "2.0.0", "2.0.1", "2.1.0",
                                        "2.1.1", "end 2/2 last"));
}

TEST_F(PlanningLoopTest, AJobThatWasSavedAtAnEpochsEndBeginsWithThatEnd) {
  const JobTerms job = begin(0, 2);
  PlanningLoop planning = loop(1);
  planning.run(job, {});
  EXPECT_THAT(planned(job), ElementsAre("end 0/2 last"));
}

TEST_F(PlanningLoopTest, AJobThatWasSavedAfterTheLastEpochIsToldSo) {
  const JobTerms job = begin(2, 0);
  PlanningLoop planning = loop(2);
  planning.run(job, {});
  EXPECT_THAT(planned(job), ElementsAre("end 2/0 last"));
}

TEST_F(PlanningLoopTest, AnEpochsEndCountsItsSamples) {
  dropped_ = 5;
  const JobTerms job = begin();
  PlanningLoop planning = loop(1);
  planning.run(job, {});
  planned(job);
  EXPECT_EQ(last_end_.planned, 4U);
  EXPECT_EQ(last_end_.dropped, 5U);
  EXPECT_EQ(last_end_.bad, 3U);
  EXPECT_THAT(log_.lines(), ElementsAre("epoch 0: 5 samples of the tail dropped (tail = drop)"));
}

TEST_F(PlanningLoopTest, AnEpochOfBadSamplesFails) {
  all_bad_ = true;
  const JobTerms job = begin();
  PlanningLoop planning = loop(1);
  planning.run(job, {});
  EXPECT_THAT(planned(job),
              ElementsAre("every sample of epoch 0 is bad: bad.jsonl lists the reasons"));
}

TEST_F(PlanningLoopTest, ALimitThatNoSampleKeepsIsNamed) {
  all_bad_ = true;
  last_bad_ = BadSample{"a.tar", "cat", "", "raise it", true};
  const JobTerms job = begin();
  PlanningLoop planning = loop(1);
  planning.run(job, {});
  EXPECT_THAT(planned(job), ElementsAre("every sample of epoch 0 is bad: bad.jsonl lists the "
                                        "reasons; the last one: a.tar/cat: raise it"));
}

TEST_F(PlanningLoopTest, AFailureIsTheJobs) {
  failure_ = Error(ErrorCode::kIo, "no disk");
  const JobTerms job = begin();
  PlanningLoop planning = loop(1);
  planning.run(job, {});
  EXPECT_THAT(planned(job), ElementsAre("no disk"));
  EXPECT_EQ(ended_, 1);
}

TEST_F(PlanningLoopTest, AStopIsNoFailure) {
  failure_ = Error(ErrorCode::kCancelled, "stopped while waiting for memory");
  const JobTerms job = begin();
  PlanningLoop planning = loop(1);
  planning.run(job, {});
  EXPECT_THAT(planned(job), ElementsAre());
}

// While a rank trains on the first step, the next plan_ahead steps are planned already.
TEST_F(PlanningLoopTest, PlansTheNextStepsBeforeTheFirstIsTaken) {
  steps_ = 10;
  CurrentJob job({JoinRequirements{options_}, 2, clock_.clock()});
  Hello hello;
  hello.world_size = 1;
  const JobTerms terms = job.begin(hello, true).value();
  job.join({0, false, {}, 1});  // without credit: it takes nothing
  std::atomic<int> sealed = 0;
  std::latch three(3);
  PlanningInput counted = input();
  counted.seal = [&](std::uint32_t epoch, std::uint32_t step, const std::stop_token&) {
    if (++sealed <= 3) three.count_down();
    return Result<std::shared_ptr<SealedStep>>(make_step(epoch, step, 1, 2));
  };
  PlanningLoop planning(counted, {1, ""}, job, meter_, log_.sink());
  std::stop_source stop;
  const std::jthread planner([&] { planning.run(terms, stop.get_token()); });
  three.wait();
  job.grant(0, 1);  // one of the first step's two microbatches
  EXPECT_TRUE(std::holds_alternative<CurrentJob::Outgoing>(*job.next(terms.id, 0s, {})));
  EXPECT_EQ(sealed, 3);
  stop.request_stop();
}

TEST_F(PlanningLoopTest, StopsAtAStopRequest) {
  const JobTerms job = begin();
  std::stop_source stop;
  PlanningLoop planning = loop(0);  // epochs without end, more than there is room for
  {
    const std::jthread planner([&] { planning.run(job, stop.get_token()); });
    stop.request_stop();
  }
  NodeSummary summary;
  planning.add_to(summary);
  EXPECT_LE(summary.steps, 101U);
}

TEST_F(PlanningLoopTest, MakesWayForAnotherJob) {
  const JobTerms job = begin();
  PlanningLoop planning = loop(0);
  {
    const std::jthread planner([&] { planning.run(job, {}); });
    begin(7);
  }
  EXPECT_THAT(began_, ElementsAre(job.id));
  EXPECT_EQ(ended_, 1);
}

}  // namespace
}  // namespace isocost
