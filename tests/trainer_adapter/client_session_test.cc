#include "trainer_adapter/internal/client_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tests/trainer_adapter/fake_connection.h"

namespace isocost {
namespace {

using namespace std::chrono_literals;

Welcome welcome_of(std::uint64_t node, std::uint64_t session) {
  Welcome welcome;
  welcome.node_id = node;
  welcome.session = session;
  welcome.job = 3;
  welcome.heartbeat_ms = 100;
  welcome.heartbeat_timeout_ms = 2000;
  return welcome;
}

class ClientSessionTest : public testing::Test {
 protected:
  void receive(Message message) { connection_.handlers.on_message(std::move(message), {}); }
  void join() {
    connection_.on_start = [this] {
      first_hello_ = connection_.handlers.hello();
      receive(welcome_of(1, 10));
    };
    ASSERT_EQ(session_.join({}).value().node_id, 1U);
  }
  // Receives a whole microbatch, which has no bytes.
  void receive_microbatch(std::uint32_t step) {
    MicrobatchHeader header;
    header.position = {0, step, 0};
    receive(header);
  }
  ClientOptions options() {
    ClientOptions made;
    made.endpoint = "tcp://node:1";
    made.rank = 2;
    made.world_size = 4;
    made.prefetch = 2;
    made.hardware = "a device";
    made.connect_timeout = 0ms;
    made.log = [this](LogLevel, std::string_view text) { logged_ += text; };
    return made;
  }
  // Returns whether the client waits for the node, and has not failed.
  bool is_waiting() { return !hand_out_.wait(0ms); }

  std::string logged_;
  const ClientOptions options_ = options();
  Hello first_hello_;
  BufferPool pool_;
  FakeConnection connection_;
  HandOut hand_out_{options_, connection_};
  Assembler assembler_{options_, pool_};
  ClientSession session_{options_, connection_, hand_out_, assembler_};
};

TEST_F(ClientSessionTest, SaysWhoItIsAndGrantsCreditWhenWelcomed) {
  join();
  EXPECT_EQ(first_hello_.rank, 2);
  EXPECT_EQ(first_hello_.world_size, 4);
  EXPECT_EQ(first_hello_.hardware, "a device");
  EXPECT_FALSE(first_hello_.has_position);
  EXPECT_EQ(first_hello_.job, 0U);
  EXPECT_EQ(connection_.heartbeat, 100ms);
  const auto credit = connection_.take<Credit>();
  ASSERT_EQ(credit.size(), 1U);
  EXPECT_EQ(credit[0].microbatches, 2U);
  EXPECT_EQ(credit[0].session, 10U);
}

TEST_F(ClientSessionTest, SaysAfterAReconnectWhatItHasReceived) {
  join();
  receive_microbatch(0);
  receive_microbatch(1);
  const Hello again = connection_.handlers.hello();
  EXPECT_EQ(again.client_id, first_hello_.client_id);
  EXPECT_EQ(again.job, 3U);
  ASSERT_TRUE(again.has_position);
  EXPECT_EQ(again.position, (Position{0, 1, 0}));
}

TEST_F(ClientSessionTest, TriesAgainWhileThePreviousJobIsLeaving) {
  connection_.on_start = [this] { receive(Refusal{ErrorCode::kUnavailable, "rank 1 leaves"}); };
  const auto joined = session_.join({});
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(joined.error().message(), "rank 1 leaves");
  EXPECT_EQ(connection_.heartbeat, 250ms);
}

TEST_F(ClientSessionTest, ReturnsARefusal) {
  connection_.on_start = [this] { receive(Refusal{ErrorCode::kAlreadyExists, "rank is taken"}); };
  const auto joined = session_.join({});
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(joined.error().message(), "the node refused: rank is taken");
}

TEST_F(ClientSessionTest, NamesTheEndpointThatDoesNotAnswer) {
  const auto joined = session_.join({});
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(joined.error().message().find("tcp://node:1 within 0 s"), std::string::npos)
      << joined.error().message();
}

TEST_F(ClientSessionTest, StopsJoiningWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(session_.join(stop.get_token()).error().code(), ErrorCode::kCancelled);
}

TEST_F(ClientSessionTest, FailsWhenTheNodeWasRestarted) {
  join();
  receive(welcome_of(2, 11));
  const auto next = hand_out_.next({});
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(next.error().message().find("another node process"), std::string::npos);
}

TEST_F(ClientSessionTest, FailsWhenTheNodeDoes) {
  join();
  receive(Failure{ErrorCode::kCorrupt, "no shard is left"});
  EXPECT_EQ(hand_out_.next({}).error().message(), "the node failed: no shard is left");
}

TEST_F(ClientSessionTest, FailsWithTheErrorOfAMessage) {
  join();
  connection_.handlers.on_error(Error(ErrorCode::kCorrupt, "not this protocol"));
  EXPECT_EQ(hand_out_.next({}).error().message(), "not this protocol");
}

TEST_F(ClientSessionTest, FailsAfterSilenceAndRecoversWhenWelcomedAgain) {
  join();
  connection_.handlers.on_tick(2s);
  EXPECT_TRUE(is_waiting());
  connection_.handlers.on_tick(2001ms);
  const auto next = hand_out_.next({});
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().message().find("tcp://node:1 has sent nothing for 2"), 0U)
      << next.error().message();
  receive(welcome_of(1, 11));
  EXPECT_TRUE(is_waiting());
}

TEST_F(ClientSessionTest, SaysSoonAndThenRegularlyThatTheNodeIsSilent) {
  Welcome patient = welcome_of(1, 10);
  patient.heartbeat_ms = 1000;
  patient.heartbeat_timeout_ms = 30'000;
  connection_.on_start = [&] { receive(patient); };
  ASSERT_TRUE(session_.join({}));
  logged_.clear();
  connection_.handlers.on_tick(2999ms);
  EXPECT_EQ(logged_, "");
  connection_.handlers.on_tick(3s);
  EXPECT_EQ(logged_, "tcp://node:1 has sent nothing for 3 s: waiting for 30 s in all");
  connection_.handlers.on_tick(12s);
  EXPECT_EQ(logged_.find("12 s"), std::string::npos) << logged_;
  connection_.handlers.on_tick(13s);
  EXPECT_NE(logged_.find("has sent nothing for 13 s"), std::string::npos) << logged_;
  connection_.handlers.on_tick(0s);
  EXPECT_TRUE(logged_.ends_with("tcp://node:1 sends again")) << logged_;
  logged_.clear();
  connection_.handlers.on_tick(0s);
  EXPECT_EQ(logged_, "");
}

TEST_F(ClientSessionTest, DoesNotRecoverFromAnotherFailure) {
  join();
  receive(Failure{ErrorCode::kCorrupt, "no shard is left"});
  connection_.handlers.on_tick(1h);
  receive(welcome_of(1, 11));
  EXPECT_FALSE(is_waiting());
}

TEST_F(ClientSessionTest, DoesNotMissANodeAfterTheLastEpoch) {
  join();
  receive(EpochEnd{.last_epoch = true});
  connection_.handlers.on_tick(1h);
  EXPECT_TRUE(hand_out_.next({}).has_value());
  EXPECT_TRUE(hand_out_.next({}).has_value());
}

TEST_F(ClientSessionTest, LogsNotices) {
  join();
  receive(Notice{"rank 1 is missing"});
  EXPECT_EQ(logged_, "the node: rank 1 is missing");
  EXPECT_TRUE(is_waiting());
}

TEST_F(ClientSessionTest, LeavesOnceAfterTheLastAcknowledgement) {
  join();
  receive_microbatch(0);
  ASSERT_TRUE(hand_out_.next({}).value().has_value());
  connection_.sent.clear();
  session_.leave(true);
  session_.leave(true);
  ASSERT_EQ(connection_.sent.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<Acknowledgement>(connection_.sent[0]));
  EXPECT_TRUE(std::holds_alternative<Leave>(connection_.sent[1]));
  EXPECT_EQ(connection_.stops, 2);
}

TEST(ClientSession, StopsTheConnectionWhenDestroyed) {
  const ClientOptions options;
  BufferPool pool;
  FakeConnection connection;
  HandOut hand_out(options, connection);
  Assembler assembler(options, pool);
  {
    const ClientSession session(options, connection, hand_out, assembler);
  }
  EXPECT_EQ(connection.take<Leave>().size(), 1U);
  EXPECT_EQ(connection.stops, 1);
}

}  // namespace
}  // namespace isocost
