#include "trainer_adapter/internal/hand_out.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/trainer_adapter/fake_connection.h"
#include "trainer_adapter/trained_steps.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSession = 7;
constexpr std::chrono::milliseconds kNow{0};

ClientOptions options_with(bool prepares_ahead) {
  ClientOptions options;
  options.prefetch = 2;
  options.prepares_ahead = prepares_ahead;
  return options;
}

Microbatch microbatch_at(std::uint32_t step) {
  Microbatch microbatch;
  microbatch.header.position = {0, step, 0};
  return microbatch;
}

// Does what the connection's thread does beside a HandOut.
class Feed {
 public:
  explicit Feed(HandOut& hand_out) : hand_out_(hand_out) {}

  void begin_session(std::uint64_t session) { receive(welcome_to(session)); }
  void end_session() {
    hand_out_.apply([](RankMachine& machine, RankActions&) { machine.hello({}); });
  }
  // Hands over a microbatch at once; returns whether it is expected.
  bool add(Microbatch microbatch) {
    const MicrobatchHeader header = microbatch.header;
    for (const RankAction& action : receive(header)) {
      if (!std::holds_alternative<BeginAssembly>(action)) continue;
      hand_out_.complete(header.position, std::move(microbatch));
      return true;
    }
    return false;
  }
  // Hands over an end of epoch; returns whether it is expected.
  bool add(const EpochEnd& end) {
    bool handed = false;
    hand_out_.apply([&](RankMachine& machine, RankActions& actions) {
      machine.receive(end, actions);
      handed = !actions.empty();
    });
    return handed;
  }
  void fail(const Error& error) {
    hand_out_.apply(
        [&](RankMachine& machine, RankActions& actions) { machine.fail(error, actions); });
  }
  // Fails because the node is silent.
  void be_silent() {
    hand_out_.apply([](RankMachine& machine, RankActions& actions) {
      machine.tick({}, std::chrono::hours(1), actions);
    });
  }
  bool is_over() {
    bool over = false;
    hand_out_.apply([&](RankMachine& machine, RankActions&) { over = machine.is_over(); });
    return over;
  }

 private:
  static Welcome welcome_to(std::uint64_t session) {
    Welcome welcome;
    welcome.session = session;
    return welcome;
  }
  RankActions receive(const Message& message) {
    return hand_out_.apply(
        [&](RankMachine& machine, RankActions& actions) { machine.receive(message, actions); });
  }

  HandOut& hand_out_;
};

class HandOutTest : public testing::Test {
 protected:
  std::uint32_t credit() {
    std::uint32_t granted = 0;
    for (const Credit& credit : connection_.take<Credit>()) {
      EXPECT_EQ(credit.session, session_);
      granted += credit.microbatches;
    }
    return granted;
  }
  std::vector<std::uint32_t> acknowledged() {
    std::vector<std::uint32_t> steps;
    for (const auto& sent : connection_.take<Acknowledgement>())
      steps.push_back(sent.position.step);
    return steps;
  }
  std::optional<std::uint32_t> next_step() {
    const auto next = hand_out_.next({}).value();
    if (!next) return std::nullopt;
    return next->header.position.step;
  }

  std::uint64_t session_ = kSession;
  FakeConnection connection_;
  HandOut hand_out_{options_with(false), connection_};
  Feed feed_{hand_out_};
};

using Steps = std::vector<std::uint32_t>;

TEST_F(HandOutTest, GrantsCreditForWhatIsNeitherReadyNorOnItsWay) {
  feed_.begin_session(kSession);
  EXPECT_EQ(credit(), 2U);
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_TRUE(feed_.add(microbatch_at(1)));
  EXPECT_EQ(credit(), 0U) << "both are ready and take the room";
  EXPECT_EQ(next_step(), 0U);
  EXPECT_EQ(credit(), 1U);
  EXPECT_FALSE(feed_.add(microbatch_at(0)));
  EXPECT_EQ(credit(), 1U) << "the node spent one on what had come before";
}

TEST_F(HandOutTest, GrantsNoCreditBetweenSessions) {
  feed_.begin_session(kSession);
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  feed_.end_session();
  connection_.sent.clear();
  EXPECT_EQ(next_step(), 0U);
  EXPECT_EQ(credit(), 0U);
  session_ = kSession + 1;
  feed_.begin_session(session_);
  EXPECT_EQ(credit(), 2U) << "what the last session granted is void";
}

TEST_F(HandOutTest, AcknowledgesWhenTheNextIsAskedFor) {
  feed_.begin_session(kSession);
  for (std::uint32_t step = 0; step < 2; ++step) EXPECT_TRUE(feed_.add(microbatch_at(step)));
  EXPECT_EQ(next_step(), 0U);
  EXPECT_EQ(acknowledged(), Steps());
  EXPECT_EQ(next_step(), 1U);
  EXPECT_EQ(acknowledged(), Steps{0});
  EXPECT_FALSE(hand_out_.wait(kNow));
  EXPECT_EQ(acknowledged(), Steps{1});
}

TEST_F(HandOutTest, RepeatsTheLastAcknowledgementInANewSession) {
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_EQ(next_step(), 0U);
  feed_.begin_session(kSession);
  EXPECT_EQ(acknowledged(), Steps()) << "it is still in use";
  hand_out_.acknowledge();
  feed_.begin_session(kSession);
  EXPECT_EQ(acknowledged(), (Steps{0, 0}));
}

TEST_F(HandOutTest, AReportWithoutAMeasurementIsForAMicrobatchWithoutWork) {
  Microbatch with_work = microbatch_at(1);
  with_work.header.predicted_seconds = {0, 0, 0.5};
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_TRUE(feed_.add(std::move(with_work)));
  EXPECT_EQ(next_step(), 0U);
  EXPECT_EQ(next_step(), 1U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}}));
  EXPECT_FALSE(hand_out_.send(Report{{0, 1, 0}, {0, 0, 0}})) << "work takes time";
  const Status refused = hand_out_.send(Report{{0, 1, 0}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("nothing was measured of epoch 0, step 1"),
            std::string::npos);
  EXPECT_TRUE(hand_out_.send(Report{{0, 1, 0}, {kNotMeasured, kNotMeasured, 0.5}}));
}

TEST_F(HandOutTest, AStopCountsEvenWhereAMicrobatchIsReady) {
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(hand_out_.next(stop.get_token()).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(next_step(), 0U);
}

TEST_F(HandOutTest, ACallerThatPreparesAheadSaysWhereTheLoopIs) {
  HandOut ahead(options_with(true), connection_);
  Feed feed(ahead);
  for (std::uint32_t step = 0; step < 2; ++step) EXPECT_TRUE(feed.add(microbatch_at(step)));
  EXPECT_TRUE(ahead.next({}).value().has_value());
  EXPECT_TRUE(ahead.next({}).value().has_value());
  EXPECT_EQ(acknowledged(), Steps());
  ahead.use({0, 0, 0}, std::chrono::seconds(2));
  ahead.use({0, 1, 0}, std::chrono::seconds(1));
  EXPECT_EQ(acknowledged(), Steps{0});
  ahead.acknowledge();
  EXPECT_EQ(acknowledged(), Steps{1});
  EXPECT_TRUE(ahead.send(Report{}));
  EXPECT_TRUE(ahead.send(Report{}));
  const auto reports = connection_.take<Report>();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].data_wait_s, 3);
  EXPECT_EQ(reports[1].data_wait_s, 0) << "it counts once";
}

// A microbatch that the loop reports is acknowledged once the loop continues. One that is only held
// ready is not.
TEST_F(HandOutTest, AcknowledgesWhatIsTrainedAndNotWhatIsAskedPast) {
  for (std::uint32_t step = 0; step < 5; ++step) EXPECT_TRUE(feed_.add(microbatch_at(step)));
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}}));
  EXPECT_EQ(acknowledged(), Steps()) << "the loop has not gone on";
  EXPECT_EQ(next_step(), 1U);
  EXPECT_EQ(acknowledged(), Steps{0});
  EXPECT_EQ(next_step(), 2U);
  EXPECT_EQ(next_step(), 3U);
  EXPECT_EQ(acknowledged(), Steps()) << "it looks two ahead";
  EXPECT_TRUE(hand_out_.trained({0, 1, 0}));
  EXPECT_EQ(next_step(), 4U);
  EXPECT_EQ(acknowledged(), Steps{1});
  EXPECT_EQ(hand_out_.trained({0, 5, 0}).error().code(), ErrorCode::kInvalidArgument);
  hand_out_.close(/*acknowledge_last=*/true);
  EXPECT_EQ(acknowledged(), Steps());
}

TEST_F(HandOutTest, WhatAnExceptionLeftIsNotAcknowledged) {
  for (std::uint32_t step = 0; step < 4; ++step) EXPECT_TRUE(feed_.add(microbatch_at(step)));
  EXPECT_EQ(next_step(), 0U);
  hand_out_.revoke({0, 0, 0});
  EXPECT_EQ(next_step(), 1U);
  EXPECT_EQ(acknowledged(), Steps()) << "it was in use";
  EXPECT_TRUE(hand_out_.send(Report{{0, 1, 0}}));
  hand_out_.revoke({0, 1, 0});
  EXPECT_EQ(next_step(), 2U);
  EXPECT_EQ(acknowledged(), Steps()) << "it was reported";
  EXPECT_TRUE(hand_out_.send(Report{{0, 2, 0}}));
  EXPECT_EQ(next_step(), 3U);
  EXPECT_EQ(acknowledged(), Steps{2}) << "and those before with it";
}

// The node drops steps when they are acknowledged.
TEST_F(HandOutTest, ALoopThatStopsToReportIsTakenToTrainWhatItAsksPast) {
  const std::uint32_t most = TrainedSteps::kMostAhead;
  for (std::uint32_t step = 0; step < most + 3; ++step) {
    EXPECT_TRUE(feed_.add(microbatch_at(step)));
  }
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}}));
  for (std::uint32_t step = 1; step < most + 2; ++step) EXPECT_EQ(next_step(), step);
  EXPECT_EQ(acknowledged(), Steps{0});
  EXPECT_EQ(next_step(), most + 2);
  EXPECT_EQ(acknowledged(), Steps{most + 1});
}

TEST_F(HandOutTest, ALoopAtTheEndOfTheJobIsDoneWithAllOfIt) {
  for (std::uint32_t step = 0; step < 2; ++step) EXPECT_TRUE(feed_.add(microbatch_at(step)));
  EXPECT_TRUE(feed_.add(EpochEnd{.epoch = 0, .last_epoch = true}));
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}}));
  EXPECT_EQ(next_step(), 1U);
  EXPECT_EQ(next_step(), std::nullopt);
  EXPECT_EQ(acknowledged(), Steps{0});
  hand_out_.close(/*acknowledge_last=*/true);
  EXPECT_EQ(acknowledged(), Steps{1});
}

TEST_F(HandOutTest, AReportOfWhatHasNotComeIsAnError) {
  const auto report_of = [this](Position position) {
    Report report;
    report.position = position;
    return hand_out_.send(report);
  };
  const Status none = report_of({0, 0, 0});
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message().find("the last is none"), std::string::npos);
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_FALSE(report_of({0, 0, 0}).has_value()) << "it is ready, but was not handed out";
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(report_of({0, 0, 0}));
  const Status ahead = report_of({0, 1, 0});
  ASSERT_FALSE(ahead.has_value());
  EXPECT_EQ(ahead.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(ahead.error().message().find("epoch 0, step 1, microbatch 0 was not received yet"),
            std::string::npos)
      << ahead.error().message();
  EXPECT_FALSE(report_of({1, 0, 0}).has_value());
  EXPECT_EQ(connection_.take<Report>().size(), 1U);
}

// The thread that came first gets its microbatch.
TEST_F(HandOutTest, ASecondThreadIsNoticed) {
  constexpr int kThreads = 4;
  std::atomic<int> refused = 0;
  std::atomic<int> taken = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const auto next = hand_out_.next({});
        if (next) {
          taken += 1;
          return;
        }
        EXPECT_EQ(next.error().code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(next.error().message().find("another thread"), std::string::npos);
        if (++refused < kThreads - 1) return;
        EXPECT_TRUE(feed_.add(microbatch_at(0)));
      });
    }
  }
  EXPECT_EQ(refused, kThreads - 1);
  EXPECT_EQ(taken, 1);
  EXPECT_TRUE(feed_.add(microbatch_at(1)));
  EXPECT_EQ(next_step(), 1U) << "one thread at a time may be another each time";
}

TEST_F(HandOutTest, AFailureComesAfterWhatWasReady) {
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  feed_.fail(Error(ErrorCode::kCorrupt, "first"));
  feed_.fail(Error(ErrorCode::kInternal, "second"));
  EXPECT_TRUE(feed_.is_over());
  EXPECT_FALSE(feed_.add(microbatch_at(1)));
  EXPECT_FALSE(feed_.add(EpochEnd{}));
  EXPECT_EQ(next_step(), 0U);
  EXPECT_EQ(hand_out_.next({}).error().message(), "first");
  EXPECT_TRUE(hand_out_.wait(kNow)) << "`next` does not block";
}

TEST_F(HandOutTest, ContinuesWhenTheFailureIsOver) {
  feed_.begin_session(kSession);
  feed_.be_silent();
  EXPECT_FALSE(hand_out_.next({}).has_value());
  feed_.begin_session(kSession);
  EXPECT_FALSE(feed_.is_over());
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_EQ(next_step(), 0U);
}

TEST_F(HandOutTest, ReturnsNothingAtTheEndOfAnEpoch) {
  EXPECT_TRUE(feed_.add(EpochEnd{.epoch = 0}));
  EXPECT_FALSE(feed_.is_over());
  EXPECT_TRUE(feed_.add(EpochEnd{.epoch = 1, .last_epoch = true}));
  EXPECT_TRUE(feed_.is_over());
  EXPECT_FALSE(hand_out_.epoch_end().has_value());
  EXPECT_EQ(next_step(), std::nullopt);
  EXPECT_EQ(hand_out_.epoch_end()->epoch, 0U);
  EXPECT_EQ(next_step(), std::nullopt);
  EXPECT_EQ(hand_out_.epoch_end()->epoch, 1U);
  EXPECT_EQ(next_step(), std::nullopt) << "the last epoch has ended";
}

TEST_F(HandOutTest, SendsNothingForTheTrainerAfterItIsClosed) {
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_EQ(next_step(), 0U);
  hand_out_.close(/*acknowledge_last=*/true);
  EXPECT_EQ(acknowledged(), Steps{0});
  hand_out_.use({0, 1, 0}, {});
  hand_out_.acknowledge();
  hand_out_.close(true);
  EXPECT_EQ(hand_out_.send(Report{}).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(hand_out_.send(ProfileUpdate{}).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(hand_out_.next({}).error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(connection_.sent.empty());
}

TEST_F(HandOutTest, MayCloseWithoutAnAcknowledgement) {
  EXPECT_TRUE(feed_.add(microbatch_at(0)));
  EXPECT_EQ(next_step(), 0U);
  hand_out_.close(/*acknowledge_last=*/false);
  EXPECT_EQ(acknowledged(), Steps());
}

// A step whose seconds are not wanted need not be measured, and one report says how long
// the loop waited for the whole step.
TEST_F(HandOutTest, AStepWhoseSecondsAreNotWantedHasOneReport) {
  for (const std::uint32_t index : {0U, 1U}) {
    Microbatch microbatch = microbatch_at(0);
    microbatch.header.position.microbatch = index;
    microbatch.header.microbatches = 2;
    microbatch.header.predicted_seconds = {0, 0, 0.5};
    microbatch.header.seconds_wanted = false;
    EXPECT_TRUE(feed_.add(std::move(microbatch)));
  }
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}}));
  EXPECT_TRUE(connection_.take<Report>().empty());
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 1}, {kNotMeasured, kNotMeasured, 0.5}}));
  const std::vector<Report> sent = connection_.take<Report>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].position, (Position{0, 0, 1}));
  EXPECT_EQ(sent[0].seconds[2], kNotMeasured) << "seconds of one rank alone say nothing";
  EXPECT_GE(sent[0].data_wait_s, 0);
  EXPECT_EQ(sent[0].measuring_s, kNotMeasured);
}

TEST_F(HandOutTest, ReportsOnAStepWhoseSecondsAreNotWantedSayThatItIsTrained) {
  Microbatch first = microbatch_at(0);
  first.header.seconds_wanted = false;
  EXPECT_TRUE(feed_.add(std::move(first)));
  EXPECT_TRUE(feed_.add(microbatch_at(1)));
  EXPECT_EQ(next_step(), 0U);
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}}));
  EXPECT_EQ(next_step(), 1U);
  EXPECT_EQ(acknowledged(), Steps{0});
}

TEST_F(HandOutTest, AReportSaysHowLongMeasuringTook) {
  for (std::uint32_t step = 0; step < 3; ++step) EXPECT_TRUE(feed_.add(microbatch_at(step)));
  for (std::uint32_t step = 0; step < 3; ++step) EXPECT_EQ(next_step(), step);
  const std::array<double, kModules> seconds{kNotMeasured, kNotMeasured, 0.5};
  EXPECT_TRUE(hand_out_.send(Report{{0, 0, 0}, seconds}));
  EXPECT_TRUE(hand_out_.send(Report{{0, 1, 0}, seconds}));
  Report told{{0, 2, 0}, seconds};
  told.measuring_s = 0.125;
  EXPECT_TRUE(hand_out_.send(told));
  const std::vector<Report> sent = connection_.take<Report>();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].measuring_s, 0) << "nothing was sent before";
  EXPECT_GT(sent[1].measuring_s, 0) << "the time of sending the first report";
  EXPECT_EQ(sent[2].measuring_s, 0.125) << "the trainer's own word";
}

}  // namespace
}  // namespace isocost
