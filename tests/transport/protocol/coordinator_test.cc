#include "transport/protocol/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/transport/protocol/hello_of.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorTest : public testing::Test {
 protected:
  // Brings a hello, as an owner whose connections are all up, and whose node lets everyone in.
  void join(const std::string& address, const Hello& hello) {
    const JoinRequest request = coordinator_.request(hello, now_);
    coordinator_.answer(address, request, Welcome{}, now_, actions_);
  }
  void receive(const std::string& address, const Message& message) {
    coordinator_.receive(address, message, now_, actions_);
  }
  // Takes the actions, as short texts.
  std::vector<std::string> told() {
    std::vector<std::string> texts;
    for (const CoordinatorAction& action : std::exchange(actions_, {})) {
      if (const auto* event = std::get_if<ClientEvent>(&action)) texts.push_back(text_of(*event));
      if (const auto* line = std::get_if<LogLine>(&action)) texts.push_back(line->text);
      if (const auto* sent = std::get_if<SendToClient>(&action)) {
        const auto* notice = std::get_if<Notice>(&sent->message);
        texts.push_back((notice != nullptr ? "notice to " : "heartbeat to ") + sent->address);
      }
      if (const auto* welcome = std::get_if<WelcomeClient>(&action)) {
        texts.push_back("welcome " + welcome->address);
        session_ = welcome->welcome.session;
      }
      if (const auto* refused = std::get_if<RefuseClient>(&action)) {
        texts.push_back("refuse " + refused->address + ": " + refused->refusal.message);
      }
    }
    return texts;
  }
  static std::string text_of(const ClientEvent& event) {
    if (const auto* joined = std::get_if<ClientJoined>(&event)) {
      return std::to_string(joined->rank) + (joined->same_client ? " joined again" : " joined");
    }
    if (const auto* left = std::get_if<ClientLeft>(&event)) {
      return std::to_string(left->rank) + (left->finished ? " left" : " was lost");
    }
    if (const auto* heard = std::get_if<ClientHeard>(&event)) {
      return std::to_string(heard->rank) + " was heard";
    }
    if (const auto* credit = std::get_if<CreditGranted>(&event)) {
      return std::to_string(credit->rank) + " granted " + std::to_string(credit->microbatches);
    }
    if (const auto* done = std::get_if<Acknowledged>(&event)) {
      return std::to_string(done->rank) + " acknowledged " + std::to_string(done->position.step);
    }
    return "another event";
  }

  Coordinator coordinator_{
      {7, 1s, 10s, [](std::int32_t rank) { return "rank " + std::to_string(rank); }}};
  Coordinator::Time now_;
  CoordinatorActions actions_;
  std::uint64_t session_ = 0;  // of the last welcome that was told
};

TEST_F(CoordinatorTest, AWelcomeFollowsTheEventAndHasWhatTheNodeDoesNotKnow) {
  join("a", hello_of(0, 1));
  ASSERT_EQ(actions_.size(), 2U);
  const auto* welcome = std::get_if<WelcomeClient>(&actions_.back());
  ASSERT_NE(welcome, nullptr);
  EXPECT_EQ(welcome->welcome.node_id, 7U);
  EXPECT_EQ(welcome->welcome.heartbeat_ms, 1000U);
  EXPECT_EQ(welcome->welcome.heartbeat_timeout_ms, 10'000U);
  EXPECT_NE(welcome->welcome.session, 0U);
  EXPECT_THAT(told(), ElementsAre("0 joined", "welcome a"));
  join("b", hello_of(0, 1));
  EXPECT_THAT(told(), ElementsAre("0 joined again", "welcome b"));
}

TEST_F(CoordinatorTest, AQuestionWithoutARankIsAnsweredWithoutASession) {
  join("a", hello_of(kNoRank, 1));
  EXPECT_THAT(told(), ElementsAre("welcome a"));
  EXPECT_EQ(session_, 0U);
  EXPECT_THAT(coordinator_.all(), IsEmpty());
}

TEST_F(CoordinatorTest, WhatTheNodeRefusesHoldsNoRank) {
  const Hello hello = hello_of(0, 1);
  const JoinRequest request = coordinator_.request(hello, now_);
  coordinator_.answer("a", request, tl::unexpected(Refusal{ErrorCode::kInvalidArgument, "no"}),
                      now_, actions_);
  EXPECT_THAT(told(), ElementsAre("refuse a: no"));
  EXPECT_THAT(coordinator_.all(), IsEmpty());
}

// Messages of another session, or from a connection that was replaced, change nothing.
TEST_F(CoordinatorTest, TakesWhatTheHolderSaysInItsSession) {
  join("a", hello_of(0, 1));
  told();
  receive("a", Credit{3, session_});
  receive("a", Credit{3, session_ + 1});
  receive("b", Acknowledgement{{0, 5, 0}});
  EXPECT_THAT(told(), ElementsAre("0 granted 3"));
  join("b", hello_of(0, 1));
  told();
  receive("a", Acknowledgement{{0, 5, 0}});
  receive("b", Acknowledgement{{0, 6, 0}});
  EXPECT_THAT(told(), ElementsAre("0 acknowledged 6"));
}

TEST_F(CoordinatorTest, AHelloDependsOnTheClientsThatHoldRanks) {
  const Hello again = hello_of(0, 1);
  const Hello other = hello_of(0, 2);
  EXPECT_EQ(coordinator_.depends_on(again), nullptr);
  join("a", again);
  EXPECT_EQ(coordinator_.depends_on(again), nullptr);
  join("b", hello_of(1, 3));
  ASSERT_NE(coordinator_.depends_on(again), nullptr);
  EXPECT_EQ(*coordinator_.depends_on(again), "b");
  ASSERT_NE(coordinator_.depends_on(other), nullptr);
  EXPECT_EQ(*coordinator_.depends_on(other), "a");  // it holds the rank
  coordinator_.close("a", actions_);
  EXPECT_EQ(*coordinator_.depends_on(other), "b");
  coordinator_.close("b", actions_);
  EXPECT_EQ(coordinator_.depends_on(other), nullptr);
  EXPECT_TRUE(coordinator_.request(other, now_).alone);
}

// A lost connection ends behind all that it brought.
TEST_F(CoordinatorTest, AClosedConnectionTakesTheRankUnlessItsClientHasLeft) {
  join("a", hello_of(0, 1));
  told();
  receive("a", Acknowledgement{{0, 5, 0}});
  coordinator_.close("a", actions_);
  EXPECT_THAT(told(), ElementsAre("0 acknowledged 5", "0 was lost"));
  join("b", hello_of(0, 1));
  told();
  receive("b", Leave{});
  coordinator_.close("b", actions_);
  EXPECT_THAT(told(), ElementsAre("0 left"));
}

TEST_F(CoordinatorTest, ARankOfAnotherClientIsRefusedForGoodOnceThatOneIsHeard) {
  join("a", hello_of(0, 1));
  told();
  now_ += 1s;
  join("b", hello_of(0, 2));
  EXPECT_THAT(told(), ElementsAre(HasSubstr("refuse b: rank 0 is held by another client")));
  EXPECT_EQ(coordinator_.request(hello_of(0, 2), now_).rank_taken->code, ErrorCode::kUnavailable);
  now_ += 1s;
  receive("a", Heartbeat{});
  join("b", hello_of(0, 2));
  EXPECT_THAT(told(), ElementsAre(HasSubstr("refuse b: rank 0 is taken by another client")));
}

TEST_F(CoordinatorTest, ASilentClientLosesItsRankAndTheOthersAreTold) {
  join("a", hello_of(0, 1));
  join("b", hello_of(1, 2));
  told();
  now_ += 10s;
  receive("b", Heartbeat{});
  coordinator_.tick(now_, actions_);
  EXPECT_THAT(told(), ElementsAre("heartbeat to a", "heartbeat to b"));
  now_ += 1s;
  coordinator_.tick(now_, actions_);
  EXPECT_THAT(told(), ElementsAre(HasSubstr("rank 0 sent no heartbeat for 10 s"), "0 was lost",
                                  "notice to b", "heartbeat to b"));
}

// A process that was stopped may go on with what it had received, and end.
TEST_F(CoordinatorTest, WhatASilentClientHasTrainedCountsUntilAnotherOneJoins) {
  join("a", hello_of(0, 1));
  now_ += 11s;
  coordinator_.tick(now_, actions_);
  told();
  receive("a", Credit{3, session_});
  EXPECT_THAT(told(), ElementsAre("0 was heard"));
  receive("a", Acknowledgement{{0, 5, 0}});
  receive("a", Leave{});
  receive("a", Acknowledgement{{0, 6, 0}});
  EXPECT_THAT(told(), ElementsAre("0 was heard", "0 acknowledged 5", "0 was heard", "0 left"));
}

TEST_F(CoordinatorTest, WhatASilentClientSaysIsNotOfTheJobAfterIt) {
  join("a", hello_of(0, 1));
  now_ += 11s;
  coordinator_.tick(now_, actions_);
  join("b", hello_of(1, 2));
  told();
  receive("a", Acknowledgement{{0, 5, 0}});
  receive("a", Leave{});
  EXPECT_THAT(told(), IsEmpty());
}

// Its connection says that it is one client.
TEST_F(CoordinatorTest, AConnectionThatAsksForAnotherRankGivesTheFirstBack) {
  join("a", hello_of(0, 1));
  told();
  join("a", hello_of(1, 1));
  EXPECT_THAT(told(), ElementsAre("0 was lost", "1 joined", "welcome a"));
}

TEST_F(CoordinatorTest, OnlyTheSessionThatASenderMeansHasAnAddress) {
  join("a", hello_of(0, 1));
  told();
  ASSERT_NE(coordinator_.address_of(0, session_), nullptr);
  EXPECT_EQ(*coordinator_.address_of(0, 0), "a");
  EXPECT_EQ(coordinator_.address_of(0, session_ + 1), nullptr);
  EXPECT_EQ(coordinator_.address_of(1, 0), nullptr);
  coordinator_.close("a", actions_);
  EXPECT_EQ(coordinator_.address_of(0, session_), nullptr);
}

}  // namespace
}  // namespace isocost
