#include "transport/protocol/rank_machine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isocost {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kNode = 1;
constexpr std::uint64_t kSession = 10;

RankOptions options_of_a_rank() {
  RankOptions options;
  options.endpoint = "tcp://node:1";
  options.rank = 2;
  options.world_size = 4;
  options.client_id = {7};
  options.hardware = "a device";
  return options;
}

Welcome welcome_of(std::uint64_t node, std::uint64_t session) {
  Welcome welcome;
  welcome.node_id = node;
  welcome.session = session;
  welcome.job = 3;
  welcome.heartbeat_ms = 100;
  welcome.heartbeat_timeout_ms = 2000;
  return welcome;
}

MicrobatchHeader header_of(std::uint32_t step) {
  MicrobatchHeader header;
  header.position = {0, step, 0};
  return header;
}

using Steps = std::vector<int>;
constexpr int kEnd = -1;

class RankMachineTest : public testing::Test {
 protected:
  // Returns the actions of one type since the last call, and forgets all others.
  template <typename Action>
  std::vector<Action> take() {
    std::vector<Action> taken;
    for (const RankAction& action : std::exchange(actions_, {})) {
      if (const auto* wanted = std::get_if<Action>(&action)) taken.push_back(*wanted);
    }
    return taken;
  }
  // Returns the lines that were logged since the last call.
  std::string logged() {
    std::string lines;
    for (const LogLine& line : take<LogLine>()) lines += line.text;
    return lines;
  }
  // Lets time pass, in which the node is silent.
  void be_silent(std::chrono::nanoseconds silence, std::chrono::nanoseconds passed = 0ns) {
    now_ += passed;
    machine_.tick(now_, silence, actions_);
  }
  void receive(const Message& message) { machine_.receive(message, actions_); }
  Hello hello() { return machine_.hello(now_); }
  void join() { join(kSession); }
  void join(std::uint64_t session) {
    hello();
    receive(welcome_of(kNode, session));
    actions_.clear();
  }
  void announce(std::uint32_t step) { receive(header_of(step)); }
  void assemble(std::uint32_t step) { machine_.assembled({0, step, 0}, {}, actions_); }
  // Receives a whole microbatch.
  void receive_step(std::uint32_t step) {
    announce(step);
    assemble(step);
  }
  // Returns what the machine has sent since the last call, of one type.
  template <typename Sent>
  std::vector<Sent> sent() {
    std::vector<Sent> messages;
    for (const SendMessage& action : take<SendMessage>()) {
      if (const auto* wanted = std::get_if<Sent>(&action.message)) messages.push_back(*wanted);
    }
    return messages;
  }
  // Returns the microbatches that were granted since the last call, in this session.
  std::uint32_t credit(std::uint64_t session = kSession) {
    std::uint32_t granted = 0;
    for (const Credit& credit : sent<Credit>()) {
      EXPECT_EQ(credit.session, session);
      granted += credit.microbatches;
    }
    return granted;
  }
  Steps acknowledged() {
    Steps steps;
    for (const auto& message : sent<Acknowledgement>()) {
      steps.push_back(static_cast<int>(message.position.step));
    }
    return steps;
  }
  // Returns the steps that were handed over since the last call, and kEnd for an end of epoch.
  Steps handed() {
    Steps steps;
    for (const HandOver& action : take<HandOver>()) {
      const auto* position = std::get_if<Position>(&action.next);
      steps.push_back(position != nullptr ? static_cast<int>(position->step) : kEnd);
    }
    return steps;
  }
  // The loop takes the next microbatch, which was handed over.
  void take_step(std::uint32_t step) {
    machine_.ask(actions_);
    machine_.take(header_of(step), actions_);
  }
  // Returns the message of the error that the rank fails with.
  std::string failure() {
    const auto failures = take<Fail>();
    return failures.empty() ? "" : failures.front().error.message();
  }

  RankMachine::Time now_{1h};
  RankActions actions_;
  RankMachine machine_{options_of_a_rank(), now_};
};

TEST_F(RankMachineTest, SaysWhoItIs) {
  const Hello first = hello();
  EXPECT_EQ(first.rank, 2);
  EXPECT_EQ(first.world_size, 4);
  EXPECT_EQ(first.client_id[0], 7);
  EXPECT_EQ(first.hardware, "a device");
  EXPECT_FALSE(first.has_position);
  EXPECT_FALSE(first.has_start);
  EXPECT_EQ(first.job, 0U);
}

TEST_F(RankMachineTest, AnswersWithTheFirstWelcome) {
  hello();
  receive(welcome_of(kNode, kSession));
  const RankActions actions = actions_;
  const auto answers = take<Answer>();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].answer.value().session, kSession);
  actions_ = actions;
  EXPECT_EQ(take<SetHeartbeat>().at(0).interval, 100ms);
  EXPECT_EQ(hello().job, 3U);
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_TRUE(take<Answer>().empty());
}

TEST_F(RankMachineTest, SaysHelloAgainAfterTwoSilentHeartbeats) {
  be_silent(1h, 1h);
  EXPECT_TRUE(take<JoinAgain>().empty()) << "the connection has not come up";
  join();
  be_silent(200ms, 200ms);
  EXPECT_TRUE(take<JoinAgain>().empty());
  be_silent(201ms, 1ms);
  EXPECT_EQ(take<JoinAgain>().size(), 1U);
  be_silent(401ms, 200ms);
  EXPECT_TRUE(take<JoinAgain>().empty()) << "it was asked for two heartbeats ago";
  be_silent(402ms, 1ms);
  EXPECT_EQ(take<JoinAgain>().size(), 1U);
  hello();
  be_silent(1ms, 201ms);
  EXPECT_TRUE(take<JoinAgain>().empty()) << "the node has said something";
}

TEST_F(RankMachineTest, ARefusalThatMayPassIsTriedAgain) {
  hello();
  receive(Refusal{ErrorCode::kUnavailable, "rank 1 leaves"});
  EXPECT_EQ(take<SetHeartbeat>().at(0).interval, 250ms);
  be_silent(501ms, 501ms);
  EXPECT_EQ(take<JoinAgain>().size(), 1U) << "every half second";
  EXPECT_EQ(machine_.unanswered("").message(), "rank 1 leaves");
  EXPECT_EQ(machine_.unanswered("").code(), ErrorCode::kDeadlineExceeded);
  hello();
  receive(welcome_of(kNode, kSession));
  EXPECT_TRUE(take<Answer>().at(0).answer.has_value());
}

TEST_F(RankMachineTest, AnotherRefusalIsTheAnswer) {
  hello();
  receive(Refusal{ErrorCode::kAlreadyExists, "rank is taken"});
  const auto answers = take<Answer>();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].answer.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(answers[0].answer.error().message(), "the node refused: rank is taken");
  receive(welcome_of(kNode, kSession));
  EXPECT_TRUE(take<Answer>().empty()) << "the first answer counts";
}

TEST_F(RankMachineTest, AMemberIsRefusedForGood) {
  join();
  receive(Refusal{ErrorCode::kUnavailable, "the job is over"});
  EXPECT_EQ(failure(), "the node refused: the job is over");
}

TEST_F(RankMachineTest, NamesTheEndpointThatDoesNotAnswer) {
  EXPECT_EQ(machine_.unanswered("").message(),
            "no answer from tcp://node:1 within 30 s: is the node up, and the endpoint right?");
  EXPECT_EQ(machine_.unanswered("nobody listens").message(),
            "no answer from tcp://node:1 within 30 s: nobody listens");
}

TEST_F(RankMachineTest, SaysOnceWhyNoNodeIsReached) {
  be_silent(1999ms, 1999ms);
  EXPECT_TRUE(take<ExplainUnreached>().empty());
  be_silent(2s, 1ms);
  EXPECT_EQ(take<ExplainUnreached>().size(), 1U);
  machine_.tell_unreached("", actions_);
  EXPECT_EQ(logged(), "");
  be_silent(2s);
  EXPECT_EQ(take<ExplainUnreached>().size(), 1U);
  machine_.tell_unreached("is the host right?", actions_);
  EXPECT_EQ(logged(), "is the host right? Trying for 30 s in all");
  be_silent(9s, 9s);
  EXPECT_TRUE(take<ExplainUnreached>().empty());
}

TEST_F(RankMachineTest, FailsWhenTheNodeIsAnotherProcess) {
  join();
  receive(welcome_of(kNode + 1, kSession + 1));
  EXPECT_NE(failure().find("another node process"), std::string::npos);
}

TEST_F(RankMachineTest, FailsWhenTheNodeDoes) {
  join();
  receive(Failure{ErrorCode::kCorrupt, "no shard is left"});
  EXPECT_EQ(failure(), "the node failed: no shard is left");
}

TEST_F(RankMachineTest, SaysWhereADrainedJobResumes) {
  join();
  receive(Failure{ErrorCode::kDraining, "asked to", true, {0, 9, 0}});
  const auto failures = take<Fail>();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].error.message(), "the node stops: asked to");
  EXPECT_EQ(failures[0].resume_point, (Position{0, 9, 0}));
}

TEST_F(RankMachineTest, FailsWithAnErrorOfItsOwner) {
  join();
  machine_.fail(Error(ErrorCode::kCorrupt, "not this protocol"), actions_);
  EXPECT_EQ(failure(), "not this protocol");
}

TEST_F(RankMachineTest, FailsAfterSilenceAndRecoversWhenWelcomedAgain) {
  join();
  be_silent(2s);
  EXPECT_EQ(failure(), "");
  be_silent(2001ms);
  EXPECT_EQ(failure(), "tcp://node:1 has sent nothing for 2 s: the node or its network is down");
  hello();
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_EQ(take<Recover>().size(), 1U);
  receive(welcome_of(kNode, kSession + 2));
  EXPECT_TRUE(take<Recover>().empty()) << "it has recovered";
}

// The node's own reason, and where training resumes, come behind its silence.
TEST_F(RankMachineTest, AFailureOfTheNodeReplacesItsSilence) {
  join();
  be_silent(2001ms);
  EXPECT_NE(failure(), "");
  receive(Failure{ErrorCode::kDraining, "it drains", true, {1, 2, 0}});
  const auto failed = take<Fail>();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed.front().error.message(), "the node stops: it drains");
  EXPECT_EQ(failed.front().resume_point, (Position{1, 2, 0}));
  receive(Failure{ErrorCode::kIo, "later", false, {}});
  EXPECT_TRUE(take<Fail>().empty()) << "the reason is known";
  hello();
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_TRUE(take<Recover>().empty());
}

TEST_F(RankMachineTest, SaysSoonAndThenRegularlyThatTheNodeIsSilent) {
  Welcome patient = welcome_of(kNode, kSession);
  patient.heartbeat_ms = 1000;
  patient.heartbeat_timeout_ms = 30'000;
  hello();
  receive(patient);
  actions_.clear();
  be_silent(2999ms);
  EXPECT_TRUE(take<ExplainUnreached>().empty());
  be_silent(3s);
  EXPECT_EQ(take<ExplainUnreached>().size(), 1U);
  machine_.tell_unreached("nobody listens", actions_);
  EXPECT_EQ(logged(),
            "tcp://node:1 has sent nothing for 3 s: waiting for 30 s in all. nobody listens");
  be_silent(12s);
  EXPECT_TRUE(take<ExplainUnreached>().empty());
  be_silent(13s);
  machine_.tell_unreached("", actions_);
  EXPECT_EQ(logged(), "tcp://node:1 has sent nothing for 13 s: waiting for 30 s in all");
  be_silent(0s);
  EXPECT_EQ(logged(), "tcp://node:1 sends again");
  be_silent(0s);
  EXPECT_EQ(logged(), "");
}

TEST_F(RankMachineTest, LogsNotices) {
  join();
  receive(Notice{"rank 1 is missing"});
  EXPECT_EQ(logged(), "the node: rank 1 is missing");
}

TEST_F(RankMachineTest, HandsOverInTheOrderOfTheAnnouncements) {
  join();
  announce(0);
  announce(1);
  receive(EpochEnd{});
  assemble(1);
  EXPECT_EQ(handed(), Steps());
  EXPECT_FALSE(hello().has_position);
  assemble(0);
  EXPECT_EQ(handed(), (Steps{0, 1, kEnd}));
  const Hello again = hello();
  ASSERT_TRUE(again.has_position);
  EXPECT_EQ(again.position, (Position{0, 1, 0}));
}

TEST_F(RankMachineTest, AMicrobatchThatBreaksAtItsEndFailsInItsTurn) {
  join();
  announce(0);
  announce(1);
  machine_.assembled({0, 1, 0}, Error(ErrorCode::kCorrupt, "impossible length"), actions_);
  EXPECT_TRUE(take<Fail>().empty());
  assemble(0);
  const RankActions actions = actions_;
  EXPECT_EQ(handed(), Steps{0});
  actions_ = actions;
  EXPECT_EQ(failure(), "impossible length");
  EXPECT_EQ(hello().position, (Position{0, 0, 0})) << "the other one is not received";
}

TEST_F(RankMachineTest, AReconnectDropsWhatIsIncomplete) {
  join();
  receive_step(0);
  announce(1);
  EXPECT_EQ(take<BeginAssembly>().size(), 2U);
  EXPECT_EQ(machine_.receive_block({0, 2, 0}, actions_), BlockUse::kKeep);
  const Hello again = hello();
  EXPECT_EQ(again.position, (Position{0, 0, 0})) << "and not the one that is under way";
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_EQ(take<DropIncomplete>().size(), 1U);
  assemble(1);
  EXPECT_EQ(handed(), Steps()) << "it ended before the reconnect";
  announce(1);
  announce(2);
  const auto begun = take<BeginAssembly>();
  ASSERT_EQ(begun.size(), 2U) << "each begins again";
  EXPECT_FALSE(begun[1].has_block) << "the block of 2 is gone";
  assemble(1);
  EXPECT_EQ(handed(), Steps{1});
}

TEST_F(RankMachineTest, ARepeatedHelloBeginsASessionOfItsOwn) {
  join();
  announce(0);
  hello();
  hello();
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_EQ(credit(kSession + 1), 2U);
  announce(0);
  receive(welcome_of(kNode, kSession + 2));
  EXPECT_EQ(credit(kSession + 2), 2U);
  receive_step(0);
  EXPECT_EQ(handed(), Steps{0});
}

TEST_F(RankMachineTest, ARepeatedAnnouncementIsIgnored) {
  join();
  announce(0);
  announce(0);
  EXPECT_EQ(take<BeginAssembly>().size(), 1U);
  assemble(0);
  EXPECT_EQ(handed(), Steps{0});
  take_step(0);
  actions_.clear();
  announce(0);
  const RankActions actions = actions_;
  EXPECT_EQ(credit(), 1U) << "the node has spent one on it";
  actions_ = actions;
  EXPECT_TRUE(take<BeginAssembly>().empty());
  assemble(0);
  EXPECT_EQ(handed(), Steps());
  EXPECT_EQ(machine_.receive_block({0, 0, 0}, actions_), BlockUse::kRelease);
}

TEST_F(RankMachineTest, AnEndOfEpochThatComesAgainIsIgnored) {
  join();
  receive(EpochEnd{.epoch = 0});
  receive(EpochEnd{.epoch = 0});
  EXPECT_EQ(handed(), Steps{kEnd});
  join(kSession + 1);
  receive(EpochEnd{.epoch = 0});
  EXPECT_EQ(handed(), Steps());
  EXPECT_FALSE(machine_.is_over());
  receive(EpochEnd{.epoch = 1, .last_epoch = true});
  EXPECT_EQ(handed(), Steps{kEnd});
  EXPECT_TRUE(machine_.is_over());
}

TEST_F(RankMachineTest, DoesNotMissANodeAfterTheLastEpoch) {
  join();
  receive(EpochEnd{.last_epoch = true});
  be_silent(1h);
  EXPECT_EQ(failure(), "");
}

TEST_F(RankMachineTest, RefusesMoreThanTheNodeHasCreditFor) {
  join();
  announce(0);
  announce(1);
  EXPECT_EQ(failure(), "");
  announce(2);
  EXPECT_EQ(failure(), "the node announces more microbatches than it has credit for");
}

TEST_F(RankMachineTest, RefusesMoreBlocksThanTheNodeHasCreditFor) {
  join();
  EXPECT_EQ(machine_.receive_block({0, 5, 0}, actions_), BlockUse::kKeep);
  EXPECT_EQ(machine_.receive_block({0, 6, 0}, actions_), BlockUse::kKeep);
  EXPECT_EQ(machine_.receive_block({0, 7, 0}, actions_), BlockUse::kRelease);
  EXPECT_EQ(failure(), "the node delivers more microbatches than it has credit for");
}

TEST_F(RankMachineTest, RefusesTooManyEndsOfEpochs) {
  join();
  announce(0);
  std::string why;
  for (std::uint32_t epoch = 0; why.empty() && epoch < 10; ++epoch) {
    receive(EpochEnd{.epoch = epoch});
    why = failure();
  }
  EXPECT_EQ(why, "the node announces too many ends of epochs");
}

TEST_F(RankMachineTest, HasNotReceivedWhatCameAfterAFailure) {
  join();
  announce(0);
  be_silent(1h);
  EXPECT_EQ(take<DropIncomplete>().size(), 1U);
  assemble(0);
  receive_step(1);
  receive(EpochEnd{});
  EXPECT_EQ(machine_.receive_block({0, 2, 0}, actions_), BlockUse::kRelease);
  EXPECT_EQ(handed(), Steps());
  EXPECT_FALSE(hello().has_position) << "the node is to send it again";
  receive(welcome_of(kNode, kSession + 1));
  receive_step(0);
  EXPECT_EQ(handed(), Steps{0});
}

TEST_F(RankMachineTest, OnlyTheFirstFailureCounts) {
  join();
  receive(Failure{ErrorCode::kCorrupt, "no shard is left"});
  EXPECT_EQ(failure(), "the node failed: no shard is left");
  be_silent(1h);
  machine_.fail(Error(ErrorCode::kInternal, "second"), actions_);
  EXPECT_EQ(failure(), "");
  hello();
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_TRUE(take<Recover>().empty()) << "it was no silence";
  EXPECT_TRUE(machine_.is_over());
}

TEST_F(RankMachineTest, ABlockMayComeBeforeOrAfterItsAnnouncement) {
  join();
  EXPECT_EQ(machine_.receive_block({0, 0, 0}, actions_), BlockUse::kKeep);
  announce(0);
  announce(1);
  const auto begun = take<BeginAssembly>();
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_TRUE(begun[0].has_block);
  EXPECT_FALSE(begun[1].has_block);
  EXPECT_EQ(machine_.receive_block({0, 1, 0}, actions_), BlockUse::kAssemble);
  assemble(1);
  EXPECT_EQ(machine_.receive_block({0, 1, 0}, actions_), BlockUse::kRelease)
      << "it is complete, and waits for the one before";
}

TEST_F(RankMachineTest, GrantsCreditForWhatIsNeitherReadyNorOnItsWay) {
  hello();
  receive(welcome_of(kNode, kSession));
  EXPECT_EQ(credit(), 2U);
  receive_step(0);
  receive_step(1);
  EXPECT_EQ(credit(), 0U) << "both are ready and take the room";
  take_step(0);
  EXPECT_EQ(credit(), 1U);
}

TEST_F(RankMachineTest, CreditBeginsAnewAfterAReconnect) {
  join();
  receive_step(0);
  hello();
  take_step(0);
  EXPECT_EQ(credit(), 0U) << "the node would ignore it";
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_EQ(credit(kSession + 1), 2U) << "what the last session granted is void";
}

TEST_F(RankMachineTest, WithoutARankGrantsNoCredit) {
  RankOptions options = options_of_a_rank();
  options.rank = kNoRank;
  RankMachine machine(options, now_);
  machine.hello(now_);
  machine.receive(welcome_of(kNode, 0), actions_);
  EXPECT_EQ(credit(), 0U);
  EXPECT_EQ(machine.hello(now_).rank, kNoRank);
}

TEST_F(RankMachineTest, RepeatsTheLastAcknowledgementAfterAReconnect) {
  join();
  receive_step(0);
  take_step(0);
  hello();
  receive(welcome_of(kNode, kSession + 1));
  EXPECT_EQ(acknowledged(), Steps()) << "it is still in use";
  machine_.acknowledge(actions_);
  EXPECT_EQ(acknowledged(), Steps{0});
  hello();
  receive(welcome_of(kNode, kSession + 2));
  const auto messages = take<SendMessage>();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<Acknowledgement>(messages[0].message));
  EXPECT_TRUE(std::holds_alternative<Credit>(messages[1].message));
}

TEST_F(RankMachineTest, ClosesWithTheLastAcknowledgement) {
  join();
  receive_step(0);
  take_step(0);
  actions_.clear();
  machine_.close(/*acknowledge_last=*/true, actions_);
  machine_.close(/*acknowledge_last=*/true, actions_);
  const auto messages = take<SendMessage>();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<Acknowledgement>(messages[0].message));
  EXPECT_TRUE(std::holds_alternative<Leave>(messages[1].message));
  EXPECT_TRUE(machine_.is_closed());
  machine_.use({0, 1, 0}, 0ns, actions_);
  machine_.acknowledge(actions_);
  EXPECT_EQ(machine_.report(Report{}, now_, actions_).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(machine_.send_profile(ProfileUpdate{}, actions_).error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(actions_.empty());
}

// The node ignores answers to earlier questions.
TEST_F(RankMachineTest, AProfileAnswersTheLastMicrobatchThatAskedForOne) {
  join();
  Steps asked;
  for (std::uint32_t step = 0; step < 4; ++step) {
    receive_step(step);
    MicrobatchHeader header = header_of(step);
    header.profile_budget_s = step % 2 == 1 ? 2.5 : 0;
    machine_.take(header, actions_);
    EXPECT_TRUE(machine_.send_profile(ProfileUpdate{}, actions_));
    for (const ProfileUpdate& update : sent<ProfileUpdate>()) {
      asked.push_back(static_cast<int>(update.asked.step));
    }
  }
  EXPECT_EQ(asked, (Steps{0, 1, 1, 3}));
}

// It acknowledges on a connection that is lost, and leaves before the next welcome.
TEST_F(RankMachineTest, AClosingRankRepeatsWhatALostConnectionMayNotHaveBrought) {
  join();
  receive_step(0);
  take_step(0);
  machine_.acknowledge(actions_);
  EXPECT_EQ(acknowledged(), Steps{0});
  hello();
  machine_.close(/*acknowledge_last=*/true, actions_);
  const auto messages = take<SendMessage>();
  ASSERT_EQ(messages.size(), 2U);
  ASSERT_TRUE(std::holds_alternative<Acknowledgement>(messages[0].message));
  EXPECT_EQ(std::get<Acknowledgement>(messages[0].message).position, (Position{0, 0, 0}));
  EXPECT_TRUE(std::holds_alternative<Leave>(messages[1].message));
}

TEST_F(RankMachineTest, MayCloseWithoutAnAcknowledgement) {
  join();
  receive_step(0);
  take_step(0);
  actions_.clear();
  machine_.close(/*acknowledge_last=*/false, actions_);
  const auto messages = take<SendMessage>();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Leave>(messages[0].message));
}

TEST_F(RankMachineTest, AReportHasTheTimeThatTheLoopWaitedAndThatReportingTook) {
  join();
  receive_step(0);
  take_step(0);
  machine_.end_wait(3s);
  actions_.clear();
  const Report report{{0, 0, 0}, {kNotMeasured, kNotMeasured, 0.5}};
  ASSERT_TRUE(machine_.report(report, now_, actions_));
  machine_.end_report(now_ + 250ms);
  ASSERT_TRUE(machine_.report(report, now_, actions_));
  const auto reports = sent<Report>();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].data_wait_s, 3);
  EXPECT_EQ(reports[0].measuring_s, 0) << "nothing was sent before";
  EXPECT_EQ(reports[1].data_wait_s, 0) << "it counts once";
  EXPECT_EQ(reports[1].measuring_s, 0.25);
}

// A welcome that offers shared memory.
Welcome welcome_with_memory(std::uint64_t session) {
  Welcome welcome = welcome_of(kNode, session);
  welcome.shared_memory.socket = "isocost.test";
  return welcome;
}

TEST_F(RankMachineTest, AttachesBeforeItGrantsCredit) {
  hello();
  receive(welcome_with_memory(kSession));
  const RankActions actions = actions_;
  EXPECT_EQ(credit(), 0U);
  actions_ = actions;
  EXPECT_EQ(take<LeaveMemory>().size(), 1U) << "of the last session";
  actions_ = actions;
  ASSERT_EQ(take<AttachMemoryOffered>().size(), 1U);
  machine_.attached(now_, {}, actions_);
  EXPECT_EQ(credit(), 2U);
}

TEST_F(RankMachineTest, JoinsAgainOnceItsMemoryIsLostForAHeartbeat) {
  hello();
  receive(welcome_with_memory(kSession));
  machine_.attached(now_, {}, actions_);
  machine_.lose_memory(now_, Error(ErrorCode::kUnavailable, "closed"), actions_);
  actions_.clear();
  be_silent(0ns, 99ms);
  EXPECT_TRUE(take<JoinAgain>().empty()) << "a welcome may be on its way";
  be_silent(0ns, 1ms);
  EXPECT_EQ(take<JoinAgain>().size(), 1U);
  be_silent(0ns, 1h);
  EXPECT_TRUE(take<JoinAgain>().empty()) << "once";
  machine_.lose_memory(now_, Error(ErrorCode::kCorrupt, "no such packet"), actions_);
  EXPECT_EQ(failure(), "no such packet");
}

TEST_F(RankMachineTest, WhereMemoryCannotBeSharedThereIsNoOtherTry) {
  hello();
  receive(welcome_with_memory(kSession));
  machine_.attached(now_, Error(ErrorCode::kNotFound, "another host"), actions_);
  EXPECT_EQ(logged(), "microbatches come over the socket and not in shared memory: another host");
  receive(welcome_with_memory(kSession + 1));
  EXPECT_EQ(credit(kSession + 1), 2U) << "it does not attach first";
  be_silent(0ns, 1h);
  EXPECT_TRUE(take<JoinAgain>().empty());
}

TEST_F(RankMachineTest, AfterThreeLossesItReceivesWithoutMemory) {
  hello();
  for (int tries = 0; tries < 3; ++tries) {
    actions_.clear();
    receive(welcome_with_memory(kSession));
    ASSERT_EQ(take<AttachMemoryOffered>().size(), 1U);
    machine_.attached(now_, Error(ErrorCode::kUnavailable, "cannot connect"), actions_);
    EXPECT_EQ(logged(), "");
    be_silent(0ns, 100ms);
    EXPECT_EQ(take<JoinAgain>().size(), 1U);
  }
  receive(welcome_with_memory(kSession));
  EXPECT_EQ(logged(), "microbatches come over the socket and not in shared memory: cannot connect");
  receive(welcome_with_memory(kSession));
  EXPECT_EQ(logged(), "") << "it is told once";
}

TEST_F(RankMachineTest, ABlockEndsTheCountOfLosses) {
  hello();
  for (std::uint32_t tries = 0; tries < 9; ++tries) {
    receive(welcome_with_memory(kSession));
    machine_.attached(now_, {}, actions_);
    machine_.receive_block({0, tries, 0}, actions_);
    machine_.lose_memory(now_, Error(ErrorCode::kUnavailable, "closed"), actions_);
    actions_.clear();
    be_silent(0ns, 100ms);
    EXPECT_EQ(take<JoinAgain>().size(), 1U);
  }
  EXPECT_EQ(logged(), "");
}

}  // namespace
}  // namespace isocost
