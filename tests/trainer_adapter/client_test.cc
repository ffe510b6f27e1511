#include "trainer_adapter/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/scratch_directory.h"
#include "tests/support/admit_ranks.h"
#include "tests/support/log_lines.h"
#include "tests/trainer_adapter/scripted_node.h"
#include "tests/trainer_adapter/tcp_proxy.h"
#include "transport/wire/wire.h"
#include "transport/zmq/keys.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;

constexpr std::int64_t kBytes = 50'000;

ServerOptions server_options() {
  ServerOptions options;
  options.bind = "tcp://127.0.0.1:*";
  options.heartbeat = milliseconds(50);
  options.heartbeat_timeout = milliseconds(400);
  return options;
}

// For clients without a job key, such as those behind a proxy.
ServerOptions open_server_options() {
  ServerOptions options = server_options();
  options.insecure = true;
  return options;
}

ClientOptions client_options(const std::string& endpoint, std::int32_t rank = 0) {
  ClientOptions options;
  options.endpoint = endpoint;
  options.rank = rank;
  options.connect_timeout = milliseconds(5000);
  return options;
}

// Reads the rest of the epoch; the steps in the order in which they came, each with the right
// bytes.
std::vector<std::uint32_t> read_all(Client& client) {
  std::vector<std::uint32_t> steps;
  for (;;) {
    auto next = client.next({});
    if (!next) {
      ADD_FAILURE() << next.error().message();
      return steps;
    }
    if (!next->has_value()) return steps;
    const Microbatch& microbatch = **next;
    steps.push_back(microbatch.header.position.step);
    const std::optional<SharedTensor> patches = microbatch.find("vision.patches");
    for (std::size_t i = 0; i < microbatch.header.samples.size(); ++i) {
      const auto expected = ScriptedNode::content(microbatch.header.samples[i].id, kBytes);
      const auto row = patches->as<std::uint8_t>().subspan(i * kBytes, kBytes);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin()));
    }
  }
}

std::vector<std::uint32_t> first_steps(std::uint32_t count) {
  std::vector<std::uint32_t> steps(count);
  for (std::uint32_t i = 0; i < count; ++i) steps[i] = i;
  return steps;
}

// The limit is smaller than a message of the node, because it counts only tensors.
TEST(Client, AMicrobatchOverTheLimitIsAnError) {
  ScriptedNode node(server_options(), 1, 100);
  ClientOptions options = client_options(node.endpoint());
  options.max_microbatch_bytes = 1;
  auto client = Client::connect(options);
  Status status = {};
  if (!client) {  // the microbatch came before connect() returned
    status = client.error();
  } else if (auto next = (*client)->next({}); !next) {
    status = next.error();
  }
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(status.error().message().find("bytes, and max_microbatch_bytes is 1:"),
            std::string::npos)
      << status.error().message();
}

TEST(Client, ReceivesEveryMicrobatchOnceInOrder) {
  ScriptedNode node(server_options(), 30, kBytes);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  EXPECT_EQ(read_all(*client), first_steps(30));
  EXPECT_EQ(client->bytes_copied(), 30 * 2 * kBytes);
  ASSERT_TRUE(client->epoch_end().has_value());
  EXPECT_TRUE(client->epoch_end()->last_epoch);
  EXPECT_FALSE(client->next({}).value().has_value()) << "the end is the end";
  client->close();
  EXPECT_TRUE(node.wait([](const auto& counts) { return counts.finished.contains(0); }));
  EXPECT_EQ(node.counts().acknowledged[0].size(), 30U);
}

TEST(Client, WithoutARankReadsTheWelcomeAndTakesNoPlace) {
  ScriptedNode node(server_options(), 5, kBytes);
  ClientOptions options = client_options(node.endpoint());
  const auto holder = Client::connect(options).value();
  options.rank = kNoRank;
  const auto asking = Client::connect(options).value();
  EXPECT_EQ(asking->welcome().steps_per_epoch, holder->welcome().steps_per_epoch);
  EXPECT_EQ(asking->welcome().session, 0U);
  EXPECT_EQ(asking->next({}).error().code(), ErrorCode::kInvalidArgument);
  asking->close();
  EXPECT_EQ(read_all(*holder), first_steps(5));
  holder->close();
  EXPECT_TRUE(node.wait([](const auto& counts) { return counts.finished.contains(0); }));
  EXPECT_EQ(node.counts().joined.size(), 1U);
  EXPECT_FALSE(node.counts().finished.contains(kNoRank));
}

TEST(Client, IsNeverSentMoreThanItAskedFor) {
  ScriptedNode node(server_options(), 20, kBytes);
  ClientOptions options = client_options(node.endpoint());
  options.prefetch = 3;
  const auto client = Client::connect(options).value();
  EXPECT_TRUE(node.wait([](const auto& counts) { return counts.sent.contains(0); }));
  read_all(*client);
  // Three are prefetched, one is in use, and the acknowledgement of one is still on its way.
  EXPECT_LE(node.counts().most_in_flight, 5U);
}

TEST(Client, ATensorOutlivesItsMicrobatchAndClientAndGivesItsMemoryBack) {
  ScriptedNode node(server_options(), 3, kBytes);
  std::optional<SharedTensor> kept;
  {
    const auto client = Client::connect(client_options(node.endpoint())).value();
    std::optional<Microbatch> microbatch = client->next({}).value();
    kept = *microbatch->find("vision.patches");
    EXPECT_TRUE(client->pool().owns(kept->data));
    microbatch.reset();
    read_all(*client);
    EXPECT_GE(client->pool().bytes_in_use(), 2 * kBytes);
    EXPECT_LT(client->pool().bytes_in_use(), 3 * kBytes);
  }
  const auto expected = ScriptedNode::content(0, kBytes);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), kept->as<std::uint8_t>().begin()));
}

TEST(Client, TheNodeReleasesSentTensors) {
  ScriptedNode node(server_options(), 10, kBytes);
  {
    const auto client = Client::connect(client_options(node.endpoint())).value();
    read_all(*client);
    client->close();
  }
  EXPECT_TRUE(node.wait([](const auto& counts) { return counts.finished.contains(0); }));
  // ZeroMQ frees a frame on its own thread a moment after the peer has it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (node.bytes_held() > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(node.bytes_held(), 0);
}

// The connection is cut again and again, in the middle of messages: still once each, in order.
TEST(Client, ReconnectsAndLosesNothing) {
  constexpr std::uint32_t kSteps = 60;
  ScriptedNode node(open_server_options(), kSteps, kBytes);
  TcpProxy proxy(node.port());
  const auto client = Client::connect(client_options(proxy.endpoint())).value();
  std::vector<std::uint32_t> steps;
  for (int cuts = 0;;) {
    auto next = client->next({});
    ASSERT_TRUE(next.has_value()) << next.error().message();
    if (!next->has_value()) break;
    steps.push_back((*next)->header.position.step);
    if (steps.size() % 15 == 0 && cuts < 3) {
      ++cuts;
      proxy.cut();
      ASSERT_TRUE(node.wait([&](const auto& counts) { return counts.joined.at(0) > cuts; }));
    }
  }
  EXPECT_EQ(steps, first_steps(kSteps));
  EXPECT_EQ(node.counts().rejoined_as_same[0], 3);
}

TEST(Client, ANewProcessOfTheSameRankGetsWhatWasNotAcknowledged) {
  ScriptedNode node(server_options(), 10, kBytes);
  {
    const auto first = Client::connect(client_options(node.endpoint())).value();
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(first->next({}).value().has_value());
  }  // steps 0 to 2 are acknowledged, step 3 was in use
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.finished.contains(0); }));
  const auto second = Client::connect(client_options(node.endpoint())).value();
  EXPECT_EQ(read_all(*second), (std::vector<std::uint32_t>{3, 4, 5, 6, 7, 8, 9}));
}

TEST(Client, IsRefusedWithTheReason) {
  ScriptedNode node(server_options(), 1, kBytes, 2);
  const auto refusal = [&](std::int32_t rank, std::int32_t world_size) {
    ClientOptions options = client_options(node.endpoint(), rank);
    options.world_size = world_size;
    const auto client = Client::connect(options);
    return client ? std::string("let in") : client.error().message();
  };
  EXPECT_NE(refusal(2, 0).find("serves ranks 0 to 1"), std::string::npos) << refusal(2, 0);
  EXPECT_NE(refusal(kNoRank - 1, 0).find("out of range"), std::string::npos);
  EXPECT_NE(refusal(0, 4).find("world size of 4, the node serves 2"), std::string::npos)
      << refusal(0, 4);
  const auto holder = Client::connect(client_options(node.endpoint(), 1)).value();
  const std::string why = refusal(1, 2);
  EXPECT_NE(why.find("taken"), std::string::npos) << why;
}

TEST(Client, AnotherVersionIsRefusedByName) {
  ScriptedNode node(open_server_options(), 1, kBytes);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::rcvtimeo, 5000);
  dealer.connect(node.endpoint());
  auto bytes = encode(Hello{});
  bytes[4] = std::byte{1};
  dealer.send(zmq::message_t(bytes.data(), bytes.size()), zmq::send_flags::none);
  zmq::message_t reply;
  ASSERT_TRUE(dealer.recv(reply).has_value());
  const auto message = decode({static_cast<const std::byte*>(reply.data()), reply.size()}).value();
  const auto& refused = std::get<Refusal>(message);
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  const std::string both = "versions 1 and " + std::to_string(kProtocolVersion);
  EXPECT_NE(refused.message.find(both), std::string::npos) << refused.message;
}

TEST(Client, ALateClientLearnsWhyTheNodeFailed) {
  ScriptedNode node(server_options(), 5, kBytes, 2);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  node.server().fail(Error(ErrorCode::kCorrupt, "cat.png is broken"));
  Result<std::optional<Microbatch>> next = std::optional<Microbatch>();
  do next = client->next({});
  while (next && next->has_value());
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(next.error().message().find("cat.png is broken"), std::string::npos);
  const auto late = Client::connect(client_options(node.endpoint(), 1));
  ASSERT_FALSE(late.has_value());
  EXPECT_NE(late.error().message().find("cat.png is broken"), std::string::npos);
}

// A drained node is no end of an epoch: a loop that asks no more than `*` and the optional throws.
TEST(Client, ADrainedNodeIsAnErrorOfItsOwnAndSaysWhereToResume) {
  ScriptedNode node(server_options(), 5, kBytes, 2);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  EXPECT_EQ(client->resume_point(), std::nullopt);
  ASSERT_TRUE(client->next().value().has_value());
  node.server().fail(Error(ErrorCode::kDraining, "it is draining"), Position{0, 3, 0});
  try {
    while (const auto microbatch = *client->next()) {
    }
    // The script ends its only epoch before it is drained: then the end comes, once.
    ASSERT_TRUE(client->epoch_end().has_value());
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDraining);
    EXPECT_STREQ(error.what(), "the node stops: it is draining");
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto late = Client::connect(client_options(node.endpoint(), 1));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), ErrorCode::kDraining);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(4000)) << "it does not wait";
  EXPECT_EQ(client->resume_point(), (Position{0, 3, 0}));
}

TEST(Client, AStateWithoutItsDataIsRefused) {
  ScriptedNode node(server_options(), 1, kBytes);
  ClientOptions options = client_options(node.endpoint());
  options.start = StartPoint{0, 1, 2, ""};
  const auto refused = Client::connect(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("accept_other_data"), std::string::npos);
  options.accept_other_data = true;
  EXPECT_TRUE(Client::connect(options).has_value());
}

TEST(Client, TensorsHaveTheNamesOfPythonsArguments) {
  ScriptedNode node(server_options(), 1, kBytes);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  const std::optional<Microbatch> microbatch = client->next().value();
  ASSERT_TRUE(microbatch.has_value());
  EXPECT_TRUE(microbatch->contains("vision_patches"));
  EXPECT_EQ((*microbatch)["vision_patches"].data, microbatch->find("vision.patches")->data);
  EXPECT_FALSE(microbatch->find("audio_mel").has_value());
  try {
    static_cast<void>((*microbatch)["audio_mel"]);
    ADD_FAILURE() << "there is no sound";
  } catch (const Exception& error) {
    EXPECT_NE(std::string(error.what()).find("it has vision_patches"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(static_cast<void>(microbatch->find("patches")), Exception);
}

TEST(Client, NoticesADeadNode) {
  auto node = std::make_unique<ScriptedNode>(server_options(), 5, kBytes);
  const auto client = Client::connect(client_options(node->endpoint())).value();
  ASSERT_TRUE(client->next({}).has_value());
  node.reset();
  Result<std::optional<Microbatch>> next = std::optional<Microbatch>();
  do next = client->next({});
  while (next && next->has_value());
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), ErrorCode::kUnavailable);
}

TEST(Client, NoticesANodeThatWasRestarted) {
  auto node = std::make_unique<ScriptedNode>(open_server_options(), 50, kBytes);
  TcpProxy proxy(node->port());
  const auto client = Client::connect(client_options(proxy.endpoint())).value();
  ASSERT_TRUE(client->next({}).has_value());
  ServerOptions again = open_server_options();
  again.bind = node->endpoint();
  node.reset();
  proxy.cut();
  ScriptedNode successor(again, 50, kBytes);
  Result<std::optional<Microbatch>> next = std::optional<Microbatch>();
  do next = client->next({});
  while (next && next->has_value());
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(next.error().message().find("restarted"), std::string::npos) << next.error().message();
}

TEST(Client, StopsWaitingWhenAsked) {
  ScriptedNode node(server_options(), 0, kBytes);
  ServerOptions quiet = server_options();
  quiet.bind = "tcp://127.0.0.1:*";
  const auto server = Server::create(quiet, admit_ranks({}), [](const ClientEvent&) {}, {}).value();
  const auto client = Client::connect(client_options(server->endpoint())).value();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(client->next(stop.get_token()).error().code(), ErrorCode::kCancelled);
  const auto started = std::chrono::steady_clock::now();
  client->close();
  client->close();
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(2));
  EXPECT_EQ(client->next({}).error().code(), ErrorCode::kCancelled);
}

// Returns the error of a client that waits longer than until it tells what is wrong, which the log
// has to say as well.
std::string why_unreached(const std::string& endpoint) {
  ClientOptions options = client_options(endpoint);
  options.connect_timeout = milliseconds(2500);
  std::vector<std::string> told;
  options.log = [&](LogLevel, std::string_view text) { told.emplace_back(text); };
  const auto client = Client::connect(options);
  EXPECT_EQ(client.error().code(), ErrorCode::kDeadlineExceeded);
  const std::string why = client.error().message();
  EXPECT_EQ(told.size(), 1U);
  const std::string sentence = told.empty() ? "" : told[0].substr(0, told[0].find('?'));
  EXPECT_NE(why.find("no answer from " + endpoint + " within 2.5 s: " + sentence),
            std::string::npos)
      << why << "; told: " << sentence;
  return why;
}

TEST(Client, ATimeoutSaysThatNobodyListens) {
  const std::string why = why_unreached("tcp://127.0.0.1:9");
  EXPECT_NE(why.find("nobody listens at tcp://127.0.0.1:9: is the node up"), std::string::npos);
}

TEST(Client, ATimeoutSaysThatAnotherServiceListens) {
  zmq::context_t context;
  zmq::socket_t service(context, zmq::socket_type::stream);  // accepts, and answers nothing
  service.set(zmq::sockopt::linger, 0);
  service.bind("tcp://127.0.0.1:*");
  const std::string why = why_unreached(service.get(zmq::sockopt::last_endpoint));
  EXPECT_NE(why.find("is no node, or asks for another key"), std::string::npos);
}

// A label of a name has at most 63 characters, so no resolver is asked for this one.
TEST(Client, ATimeoutSaysThatTheHostIsUnknown) {
  const std::string why = why_unreached("tcp://" + std::string(64, 'x') + ":5800");
  EXPECT_NE(why.find("is unknown: is its name right"), std::string::npos);
}

TEST(Client, APortIsNotPickedForAClient) {
  for (const char* endpoint : {"tcp://127.0.0.1:*", "tcp://127.0.0.1"}) {
    const auto client = Client::connect(client_options(endpoint));
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(client.error().message().find("picks a free one"), std::string::npos);
  }
}

TEST(Client, ValidReportsArriveAndInvalidOnesAreRefused) {
  ScriptedNode node(server_options(), 1, kBytes);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  ASSERT_TRUE(client->next().value().has_value());
  EXPECT_FALSE(client->report({{}, {std::nan(""), 0, 0}}).has_value());
  EXPECT_FALSE(client->report({{}, {0, std::numeric_limits<double>::infinity(), 0}}).has_value());
  for (const double no_time : {86'401.0, -5.0, 1e-12}) {
    EXPECT_FALSE(client->report({{}, {0, 0, no_time}}).has_value());
  }
  EXPECT_FALSE(client->report({{}, {0.5, -1, 0.25}, 0.8}).has_value()) << "forward beyond all";
  EXPECT_FALSE(client->report({{}, {0.5, -1, 0.25}, std::nan("")}).has_value());
  EXPECT_TRUE(client->report({{0, 0, 0}, {0.5, -1, 0.25}, 0.25}));
  ASSERT_TRUE(node.wait([](const auto& counts) { return !counts.reports.empty(); }));
  EXPECT_EQ(node.counts().reports.front().seconds[0], 0.5);
  EXPECT_EQ(node.counts().reports.front().forward_s, 0.25);
}

TEST(Server, ASilentClientLosesItsRank) {
  ScriptedNode node(open_server_options(), 5, kBytes);
  zmq::context_t context;
  zmq::socket_t silent(context, zmq::socket_type::dealer);
  silent.set(zmq::sockopt::linger, 0);
  silent.connect(node.endpoint());
  Hello hello;
  hello.client_id.fill(7);
  const auto bytes = encode(hello);
  silent.send(zmq::message_t(bytes.data(), bytes.size()), zmq::send_flags::none);
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.joined.contains(0); }));
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.left.contains(0); }));
  EXPECT_EQ(node.counts().finished[0], 0);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  EXPECT_EQ(read_all(*client), first_steps(5));
}

TEST(Server, ALostRankIsToldToTheOthers) {
  ScriptedNode node(open_server_options(), 5, kBytes, 2);
  LogLines told;
  ClientOptions options = client_options(node.endpoint(), 1);
  options.log = told.sink();
  const auto other = Client::connect(options).value();
  zmq::context_t context;
  zmq::socket_t silent(context, zmq::socket_type::dealer);
  silent.set(zmq::sockopt::linger, 0);
  silent.connect(node.endpoint());
  const auto bytes = encode(Hello{});
  silent.send(zmq::message_t(bytes.data(), bytes.size()), zmq::send_flags::none);
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.left.contains(0); }));
  EXPECT_TRUE(other->next().value().has_value());  // what was sent before it has arrived
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (told.lines().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_THAT(told.lines(), Contains(HasSubstr("rank 0 sent no heartbeat for 0.4 s")));
}

TEST(Server, ErrorsNameTheAddress) {
  const auto failure = [](ServerOptions options) {
    const auto server = Server::create(options, admit_ranks({}), [](const ClientEvent&) {}, {});
    return server ? Error(ErrorCode::kInternal, "bound") : server.error();
  };
  ScriptedNode node(server_options(), 1, kBytes);
  ServerOptions options = server_options();
  options.bind = node.endpoint();
  EXPECT_EQ(failure(options).code(), ErrorCode::kAlreadyExists) << failure(options).message();
  options.bind = "tcp://0.0.0.0:*";
  EXPECT_NE(failure(options).message().find("curve_key"), std::string::npos);
  options.bind = "nonsense";
  EXPECT_EQ(failure(options).code(), ErrorCode::kInvalidArgument);
  options.bind = "tcp://127.0.0.1:*";
  options.curve_key = "/nonexistent.secret";
  EXPECT_NE(failure(options).message().find("/nonexistent.secret"), std::string::npos);
}

class Curve : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"node", "trainer", "stranger"}) {
      ASSERT_TRUE(write_keys(generate_keys().value(), directory_ / name));
    }
  }

  ServerOptions guarded(bool listed_only) const {
    ServerOptions options = server_options();
    options.curve_key = directory_ / "node.secret";
    if (listed_only) options.curve_clients = directory_ / "trainer.public";
    return options;
  }
  ClientOptions keyed(const std::string& endpoint, const std::string& own,
                      const std::string& server) const {
    ClientOptions options = client_options(endpoint);
    options.connect_timeout = milliseconds(700);
    if (!own.empty()) options.curve_secret_key_file = directory_ / (own + ".secret");
    if (!server.empty()) options.curve_server_key_file = directory_ / (server + ".public");
    return options;
  }

  ScratchDirectory directory_ = ScratchDirectory::create("isocost-curve").value();
};

TEST_F(Curve, AcceptsClientsWithTheNodesKey) {
  ScriptedNode node(guarded(false), 5, kBytes);
  const auto client = Client::connect(keyed(node.endpoint(), "", "node")).value();
  EXPECT_EQ(read_all(*client), first_steps(5));
}

TEST_F(Curve, RefusesWrongKeysAndPlainClients) {
  ScriptedNode node(guarded(false), 5, kBytes);
  EXPECT_FALSE(Client::connect(keyed(node.endpoint(), "", "stranger")).has_value());
  const auto plain = Client::connect(keyed(node.endpoint(), "", ""));
  EXPECT_NE(plain.error().message().find("key"), std::string::npos) << plain.error().message();
  EXPECT_TRUE(node.counts().joined.empty());
}

TEST_F(Curve, AnAllowListAcceptsOnlyItsKeys) {
  ScriptedNode node(guarded(true), 5, kBytes);
  EXPECT_FALSE(Client::connect(keyed(node.endpoint(), "stranger", "node")).has_value());
  const auto client = Client::connect(keyed(node.endpoint(), "trainer", "node")).value();
  EXPECT_EQ(read_all(*client), first_steps(5));
}

}  // namespace
}  // namespace isocost
