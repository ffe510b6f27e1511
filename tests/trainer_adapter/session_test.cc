// Events in a client's life: cuts, silence, signals, threads that close it, nodes that lie.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/units.h"
#include "tests/support/admit_ranks.h"
#include "tests/support/reserve_from.h"
#include "tests/trainer_adapter/scripted_node.h"
#include "tests/trainer_adapter/tcp_proxy.h"
#include "trainer_adapter/client.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

ServerOptions server_options(milliseconds timeout = milliseconds(5000)) {
  ServerOptions options;
  options.bind = "tcp://127.0.0.1:*";
  options.heartbeat = milliseconds(50);
  options.heartbeat_timeout = timeout;
  options.insecure = true;  // a proxy has another endpoint, at which no job key is found
  return options;
}

ClientOptions client_options(const std::string& endpoint, std::uint32_t prefetch = 2) {
  ClientOptions options;
  options.endpoint = endpoint;
  options.prefetch = prefetch;
  options.connect_timeout = milliseconds(5000);
  return options;
}

bool has_content(const Microbatch& microbatch, std::int64_t sample_bytes) {
  const auto all = microbatch.find("vision.patches")->as<std::uint8_t>();
  for (std::size_t i = 0; i < microbatch.header.samples.size(); ++i) {
    const auto expected = ScriptedNode::content(microbatch.header.samples[i].id, sample_bytes);
    const auto rows = all.subspan(i * expected.size(), expected.size());
    if (!std::equal(rows.begin(), rows.end(), expected.begin())) return false;
  }
  return true;
}

// Cut in the middle of every microbatch: what was in flight is sent again, nothing comes twice or
// not at all, and credit is never lost on the way (with a prefetch of 1, one lost credit is a
// hang).
class CutMidway : public testing::TestWithParam<std::pair<std::uint32_t, std::int64_t>> {};

TEST_P(CutMidway, EveryMicrobatchComesOnce) {
  constexpr std::uint32_t kSteps = 12;
  const auto [prefetch, sample_bytes] = GetParam();
  ScriptedNode node(server_options(), kSteps, sample_bytes);
  TcpProxy proxy(node.port());
  const auto client = Client::connect(client_options(proxy.endpoint(), prefetch)).value();
  std::vector<std::uint32_t> steps;
  for (int cuts = 0;; ++cuts) {
    const auto next = client->next({});
    ASSERT_TRUE(next.has_value()) << next.error().message();
    if (!next->has_value()) break;
    steps.push_back((*next)->header.position.step);
    EXPECT_TRUE(has_content(**next, sample_bytes));
    proxy.cut_after(static_cast<std::uint64_t>(sample_bytes) * (cuts % 2 == 0 ? 1 : 2));
  }
  std::vector<std::uint32_t> expected(kSteps);
  for (std::uint32_t i = 0; i < kSteps; ++i) expected[i] = i;
  EXPECT_EQ(steps, expected);
  EXPECT_GT(node.counts().rejoined_as_same[0], 0);
}

INSTANTIATE_TEST_SUITE_P(Prefetch, CutMidway,
                         testing::Values(std::pair(1U, 50'000), std::pair(2U, 50'000),
                                         std::pair(1U, 2'500'000), std::pair(3U, 2'500'000)));

// Three ranks under load, each cut off every few microbatches, wherever that may be: in a hello,
// a header, between the frames of a message, in a tensor. With and without shared memory.
class CutAnywhere : public testing::TestWithParam<bool> {};

TEST_P(CutAnywhere, EveryMicrobatchComesOnce) {
  constexpr std::uint32_t kSteps = 60;
  constexpr std::int64_t kSampleBytes = 70'000;
  MemoryBudget budget(64 * kMiB);
  ServerOptions node_options = server_options();
  if (GetParam()) node_options.reserve_block = reserve_from(budget);
  ScriptedNode node(node_options, kSteps, kSampleBytes, /*ranks=*/3);
  std::vector<std::jthread> trainers;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    trainers.emplace_back([&node, rank] {
      Random random(static_cast<std::uint64_t>(rank));
      TcpProxy proxy(node.port());
      ClientOptions options = client_options(proxy.endpoint(), 3);
      options.rank = rank;
      const auto client = Client::connect(options).value();
      for (std::uint32_t step = 0; step < kSteps; ++step) {
        const auto next = client->next({});
        ASSERT_TRUE(next.has_value()) << next.error().message();
        ASSERT_TRUE(next->has_value());
        EXPECT_EQ((*next)->header.position.step, step);
        EXPECT_TRUE(has_content(**next, kSampleBytes));
        const std::uint64_t far = random.below(2) == 0 ? 500 : 5 * kSampleBytes;
        if (step % 3 == 0) proxy.cut_after(1 + random.below(far));
      }
      EXPECT_FALSE(client->next({}).value().has_value());
    });
  }
  trainers.clear();
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_GT(node.counts().rejoined_as_same[rank], 0);
  }
  EXPECT_EQ(node.server().microbatches_shared() > 0, GetParam());
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, CutAnywhere, testing::Bool());

TEST(Session, AnAcknowledgementIsRepeatedAfterACut) {
  ScriptedNode node(server_options(), 10, 1000);
  TcpProxy proxy(node.port());
  const auto client = Client::connect(client_options(proxy.endpoint())).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->next({}).value().has_value());
  ASSERT_TRUE(node.wait([](const auto& counts) {
    const auto found = counts.acknowledged.find(0);
    return found != counts.acknowledged.end() && found->second.size() == 2;
  }));
  proxy.cut();  // it might as well have been lost
  EXPECT_TRUE(node.wait([](const auto& counts) { return counts.acknowledged.at(0).size() == 3; }));
  EXPECT_EQ(node.counts().acknowledged[0].back().step, 1U);
}

// The client's words do not arrive for longer than the time-out, its connection stands all the
// same: as after a SIGSTOP and SIGCONT. It must join again of its own.
TEST(Session, AClientThatWasGivenUpJoinsAgain) {
  ScriptedNode node(server_options(milliseconds(1000)), 10, 1000);
  TcpProxy proxy(node.port());
  const auto client = Client::connect(client_options(proxy.endpoint())).value();
  ASSERT_TRUE(client->next({}).value().has_value());
  proxy.hold_to_node(true);
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.left.contains(0); }));
  proxy.hold_to_node(false);
  std::uint32_t received = 1;
  for (;;) {
    const auto next = client->next({});
    ASSERT_TRUE(next.has_value()) << next.error().message();
    if (!next->has_value()) break;
    EXPECT_EQ((*next)->header.position.step, received++);
  }
  EXPECT_EQ(received, 10U);
}

// A node without microbatches: `next` waits.
class Waiting : public testing::Test {
 protected:
  void SetUp() override {
    server_ =
        Server::create(server_options(), admit_ranks({}), [](const ClientEvent&) {}, {}).value();
    client_ = Client::connect(client_options(server_->endpoint())).value();
  }
  // Runs `next` on a thread, does `action` once that has begun, and says how `next` ended and when.
  std::pair<ErrorCode, milliseconds> next_ends_after(const std::function<void()>& action) {
    std::promise<void> begun;
    auto ended = std::async(std::launch::async, [&] {
      begun.set_value();
      return client_->next(stop_.get_token()).error().code();
    });
    begun.get_future().wait();
    const auto started = steady_clock::now();
    action();
    const ErrorCode code = ended.get();
    return {code, std::chrono::duration_cast<milliseconds>(steady_clock::now() - started)};
  }

  std::stop_source stop_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(Waiting, EndsWhenAnotherThreadCloses) {
  const auto [code, took] = next_ends_after([this] { client_->close(); });
  EXPECT_EQ(code, ErrorCode::kCancelled);
  EXPECT_LT(took, milliseconds(1000));
}

TEST_F(Waiting, EndsWhenAskedToStop) {
  const auto [code, took] = next_ends_after([this] { stop_.request_stop(); });
  EXPECT_EQ(code, ErrorCode::kCancelled);
  EXPECT_LT(took, milliseconds(1000));
}

TEST_F(Waiting, EndsWhenTheNodeFails) {
  const auto [code, took] =
      next_ends_after([this] { server_->fail(Error(ErrorCode::kIo, "disk gone")); });
  EXPECT_EQ(code, ErrorCode::kIo);
  EXPECT_LT(took, milliseconds(1000));
}

TEST_F(Waiting, ClosesAtOnceThoughTheNodeIsDead) {
  server_.reset();
  const auto [code, took] = next_ends_after([this] { client_->close(); });
  EXPECT_EQ(code, ErrorCode::kCancelled);
  EXPECT_LT(took, milliseconds(1000));
}

TEST(Session, ManyThreadsMayCloseAtOnce) {
  ScriptedNode node(server_options(), 5, 1000);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  ASSERT_TRUE(client->next({}).value().has_value());
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&client] { client->close(); });
  }
  ASSERT_TRUE(node.wait([](const auto& counts) { return counts.finished.contains(0); }));
  EXPECT_EQ(node.counts().acknowledged[0].size(), 1U) << "close acknowledges what was in use";
}

TEST(Session, GivesItsMemoryBackAndCopiesOnce) {
  constexpr std::int64_t kBytes = 2'500'000;
  ScriptedNode node(server_options(), 4, kBytes);
  const auto client = Client::connect(client_options(node.endpoint())).value();
  {
    std::vector<Microbatch> held;
    for (;;) {
      auto next = client->next({}).value();
      if (!next) break;
      EXPECT_GE(next->waited.count(), 0);
      held.push_back(*std::move(next));
    }
    EXPECT_EQ(held.size(), 4U);
    EXPECT_GE(client->pool().bytes_in_use(), 4 * 2 * kBytes);
  }
  EXPECT_EQ(client->pool().bytes_in_use(), 0);
  EXPECT_EQ(client->bytes_copied(), 4 * 2 * kBytes);
}

TEST(Session, ASlowConsumerIsNotSentMore) {
  ScriptedNode node(server_options(), 20, 1000);
  const auto client = Client::connect(client_options(node.endpoint(), 3)).value();
  for (std::uint32_t taken = 1; taken <= 5; ++taken) {
    ASSERT_TRUE(client->next({}).value().has_value());
    ASSERT_TRUE(node.wait([&](const auto& counts) { return counts.sent.at(0) == taken + 3; }));
    EXPECT_EQ(node.counts().credit[0], 0U);
  }
}

// Two epochs, the first with two steps, the second with one. Ends arrive one by one.
TEST(Session, EpochsEndOneByOne) {
  Mutex mutex;
  std::unique_ptr<Server> server;
  std::uint32_t sent = 0;
  const auto send = [&] {
    const Position at = sent < 2 ? Position{0, sent, 0} : Position{1, 0, 0};
    MicrobatchHeader header;
    header.position = at;
    header.samples = {{sent, 1.0F, 1}};
    server->begin(0, header);  // without tensors it is whole at once
    sent += 1;
    if (sent == 2) server->epoch_end(0, {0, 2, 2, 0, 0, false});
    if (sent == 3) server->epoch_end(0, {1, 1, 1, 0, 0, true});
  };
  const auto on_event = [&](const ClientEvent& event) {
    const MutexLock lock(mutex);
    const auto* credit = std::get_if<CreditGranted>(&event);
    for (std::uint32_t i = 0; credit != nullptr && i < credit->microbatches && sent < 3; ++i)
      send();
  };
  {
    const MutexLock lock(mutex);
    server = Server::create(server_options(), admit_ranks({}), on_event, {}).value();
  }
  const auto client = Client::connect(client_options(server->endpoint())).value();
  std::vector<int> epochs;  // of microbatches; -1: an end
  for (int calls = 0; calls < 6; ++calls) {
    const auto next = client->next({}).value();
    epochs.push_back(next ? static_cast<int>(next->header.position.epoch) : -1);
    if (calls == 2) {
      ASSERT_TRUE(client->epoch_end().has_value());
      EXPECT_EQ(client->epoch_end()->steps, 2U);
      EXPECT_FALSE(client->epoch_end()->last_epoch);
    }
  }
  EXPECT_EQ(epochs, (std::vector<int>{0, 0, -1, 1, -1, -1}));
  EXPECT_TRUE(client->epoch_end()->last_epoch);
}

void ignore_signal(int /*number*/) {}

// Signals that the program handles must not end the threads behind a node and a client.
TEST(Session, SignalsDoNotDisturb) {
  struct sigaction action{};
  action.sa_handler = ignore_signal;  // without SA_RESTART: waits are interrupted
  struct sigaction before{};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  {
    ScriptedNode node(server_options(), 200, 1000);
    const auto client = Client::connect(client_options(node.endpoint())).value();
    sigset_t usr1;
    sigset_t mask;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, &mask);  // so that the others are asked to take it
    for (int steps = 0; steps < 200; ++steps) {
      kill(getpid(), SIGUSR1);
      const auto next = client->next({});
      ASSERT_TRUE(next.has_value()) << next.error().message();
      ASSERT_TRUE(next->has_value());
    }
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  }
  sigaction(SIGUSR1, &before, nullptr);
}

// A node that says what it must not: a ROUTER under the test's hand.
class LyingNode {
 public:
  LyingNode() : router_(context_, zmq::socket_type::router) {
    router_.set(zmq::sockopt::linger, 0);
    router_.set(zmq::sockopt::rcvtimeo, 5000);
    router_.bind("tcp://127.0.0.1:*");
  }
  std::string endpoint() const { return router_.get(zmq::sockopt::last_endpoint); }

  // Connects a client, and sends it `messages`.
  std::unique_ptr<Client> tell(const std::vector<Message>& messages, std::uint32_t prefetch = 2) {
    auto connecting = std::async(std::launch::async, [this, prefetch] {
      return Client::connect(client_options(endpoint(), prefetch)).value();
    });
    static_cast<void>(router_.recv(address_));
    zmq::message_t hello;
    static_cast<void>(router_.recv(hello));
    say(Welcome{});
    auto client = connecting.get();
    for (const Message& message : messages) say(message);
    return client;
  }
  void say(const Message& message) {
    const auto bytes = encode(message);
    router_.send(zmq::message_t(address_.data(), address_.size()), zmq::send_flags::sndmore);
    router_.send(zmq::message_t(bytes.data(), bytes.size()), zmq::send_flags::none);
  }
  // Returns the client's next grant; 0 if it grants nothing within 5 s.
  std::uint32_t credit() {
    const auto deadline = steady_clock::now() + std::chrono::seconds(5);
    zmq::message_t address;
    zmq::message_t frame;
    while (steady_clock::now() < deadline && router_.recv(address) && router_.recv(frame)) {
      const auto message = decode({static_cast<const std::byte*>(frame.data()), frame.size()});
      if (!message) return 0;
      if (const auto* granted = std::get_if<Credit>(&*message)) return granted->microbatches;
    }
    return 0;
  }

 private:
  zmq::context_t context_;
  zmq::message_t address_;
  zmq::socket_t router_;
};

ErrorCode first_error(Client& client) {
  for (;;) {
    const auto next = client.next({});
    if (!next) return next.error().code();
    if (!next->has_value()) return ErrorCode::kInternal;
  }
}

MicrobatchHeader announcement(std::uint32_t step, std::int64_t bytes) {
  MicrobatchHeader header;
  header.position.step = step;
  header.samples = {{1, 1.0F, 1}};
  header.tensors = {{"vision.patches", DType::kUInt8, {1, bytes}}};
  header.rows = {1};
  return header;
}

// After a reconnect a microbatch may come that is held already. The node has spent a credit on it;
// were it not granted again, both sides would wait.
TEST(LyingNode, GetsTheCreditOfARepetitionBack) {
  MicrobatchHeader whole = announcement(0, 0);
  LyingNode node;
  const auto client = node.tell({}, 1);
  EXPECT_EQ(node.credit(), 1U);
  node.say(whole);
  ASSERT_TRUE(client->next({}).value().has_value());
  EXPECT_EQ(node.credit(), 1U);
  node.say(whole);
  EXPECT_EQ(node.credit(), 1U) << "for the repetition";
  whole.position.step = 1;
  node.say(whole);
  EXPECT_EQ(client->next({}).value()->header.position.step, 1U);
}

TEST(LyingNode, ContradictoryMessagesAreErrors) {
  const auto told = [](const std::vector<Message>& messages) {
    LyingNode node;
    const auto client = node.tell(messages);
    const ErrorCode code = first_error(*client);
    EXPECT_LE(client->pool().bytes_in_use(), 1 << 20);
    return code;
  };
  EXPECT_EQ(told({announcement(0, std::int64_t{1} << 40)}), ErrorCode::kResourceExhausted)
      << "a terabyte";
  EXPECT_EQ(told({announcement(0, 100), FragmentHeader{{}, 7, {}}}), ErrorCode::kCorrupt);
  EXPECT_EQ(told({announcement(0, 100),
                  FragmentHeader{{}, 0, {{{"vision.patches", DType::kUInt8, {1, 100}}, 0}}}}),
            ErrorCode::kCorrupt)
      << "a fragment without its bytes";
  std::vector<Message> flood;
  for (std::uint32_t step = 0; step < 100; ++step) flood.emplace_back(announcement(step, 100));
  EXPECT_EQ(told(flood), ErrorCode::kCorrupt) << "more than was asked for";
}

}  // namespace
}  // namespace isocost
