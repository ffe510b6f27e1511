#include "transport/zmq/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "tests/support/admit_ranks.h"
#include "tests/transport/zmq/raw_peer.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Welcome two_ranks() {
  Welcome welcome;
  welcome.ranks = 2;
  return welcome;
}

ServerOptions quick() {
  ServerOptions options;
  options.bind = "tcp://127.0.0.1:*";
  options.heartbeat = milliseconds(50);
  options.heartbeat_timeout = milliseconds(60'000);
  return options;
}

// A server that writes down what happens.
class Recorded {
 public:
  explicit Recorded(const ServerOptions& options)
      : server_(Server::create(options, admit_ranks(two_ranks()),
                               [this](const ClientEvent& event) { take(event); }, {})
                    .value()) {}

  Server& operator*() { return *server_; }
  Server* operator->() { return server_.get(); }
  void destroy() { server_.reset(); }

  template <typename T>
  std::vector<T> all() {
    const MutexLock lock(mutex_);
    return all_locked<T>();
  }
  template <typename T>
  bool wait_for(std::size_t count) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, std::chrono::seconds(10), [&]() ISOCOST_REQUIRES(mutex_) {
      return all_locked<T>().size() >= count;
    });
  }

 private:
  template <typename T>
  std::vector<T> all_locked() const ISOCOST_REQUIRES(mutex_) {
    std::vector<T> found;
    for (const ClientEvent& event : events_) {
      if (const auto* value = std::get_if<T>(&event)) found.push_back(*value);
    }
    return found;
  }
  void take(const ClientEvent& event) {
    const MutexLock lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<ClientEvent> events_ ISOCOST_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;  // last: its thread calls `take`
};

MicrobatchHeader header_of_step(std::uint32_t step) {
  MicrobatchHeader header;
  header.position.step = step;
  header.samples = {{step, 1.0F, 1}};
  return header;
}

// Bytes that record when they are released.
struct Watched {
  explicit Watched(std::size_t size) : bytes(std::make_shared<std::vector<std::byte>>(size)) {}

  Fragment fragment(std::uint32_t step) const {
    const auto size = static_cast<std::int64_t>(bytes->size());
    return {
        {0, step, 0}, 0, {{"vision.patches", {DType::kUInt8, {1, size}, bytes->data(), bytes}}}};
  }
  // ZeroMQ releases frames on its own thread.
  bool is_released() const {
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    while (bytes.use_count() > 1 && steady_clock::now() < deadline) std::this_thread::yield();
    return bytes.use_count() == 1;
  }

  std::shared_ptr<std::vector<std::byte>> bytes;
};

std::set<std::string> io_threads() {
  std::set<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");  // fails where the thread has ended
    std::string name;
    if (std::getline(file, name) && name.starts_with("ZMQbg/IO/")) names.insert(name);
  }
  return names;
}

// The names of ZeroMQ's I/O threads once they are those expected, or after ten seconds: a thread
// names itself when it runs, and one that was joined may be listed for a moment longer.
std::set<std::string> io_threads_with(const ServerOptions& options,
                                      const std::set<std::string>& expected) {
  const Recorded server(options);
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  std::set<std::string> names = io_threads();
  while (names != expected && steady_clock::now() < deadline) {
    std::this_thread::yield();
    names = io_threads();
  }
  return names;
}

TEST(Server, HasAsManyIoThreadsAsAreAskedFor) {
  ServerOptions options = quick();
  const std::set<std::string> one = {"ZMQbg/IO/0"};
  EXPECT_EQ(io_threads_with(options, one), one);
  const std::set<std::string> three = {"ZMQbg/IO/0", "ZMQbg/IO/1", "ZMQbg/IO/2"};
  options.io_threads = 3;
  EXPECT_EQ(io_threads_with(options, three), three);
  for (const int impossible : {-1, 0, 65}) {
    options.io_threads = impossible;
    const auto refused = Server::create(options, admit_ranks(two_ranks()), {}, {});
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument) << impossible;
  }
}

TEST(Server, DropsMessagesOfAnEarlierSession) {
  Recorded server(quick());
  RawPeer before(server->endpoint());
  ASSERT_TRUE(before.join(0, 7));
  RawPeer after(server->endpoint());
  ASSERT_TRUE(after.join(0, 7));
  const auto joins = server.all<ClientJoined>();
  ASSERT_EQ(joins.size(), 2U);
  EXPECT_FALSE(joins[0].same_client);
  EXPECT_TRUE(joins[1].same_client);
  ASSERT_NE(joins[0].session, joins[1].session);

  // Decided before the second join, sent after it: must not reach anybody.
  const Watched late(1 << 20);
  server->begin(0, header_of_step(5), joins[0].session);
  server->fragment(0, late.fragment(5), nullptr, joins[0].session);
  server->epoch_end(0, {0, 6, 6, 0, 0, true}, joins[0].session);
  server->begin(0, header_of_step(4), joins[1].session);
  const auto header = after.receive_as<MicrobatchHeader>();
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->position.step, 4U);
  EXPECT_TRUE(late.is_released());
}

TEST(Server, LargeTensorsGoInPiecesThatCoverThem) {
  Recorded server(quick());
  RawPeer peer(server->endpoint());
  ASSERT_TRUE(peer.join(0, 1));
  const Watched bytes((std::size_t{5} << 20) / 2);
  const Watched little(10);
  Fragment fragment = bytes.fragment(0);
  fragment.tensors.push_back(little.fragment(0).tensors.front());
  fragment.tensors.back().name = "llm.input_ids";
  server->fragment(0, fragment, nullptr);
  std::vector<std::int64_t> offsets;
  for (bool last = false; !last;) {
    const auto header = peer.receive_as<FragmentHeader>();
    ASSERT_TRUE(header.has_value());
    for (const FragmentPiece& piece : header->pieces) {
      if (piece.tensor.name == "vision.patches") offsets.push_back(piece.offset);
      last = piece.tensor.name == "llm.input_ids";
    }
  }
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 1 << 20, 2 << 20}));
}

TEST(Server, ARankOfAKilledClientMayBeTakenAtOnce) {
  Recorded server(quick());
  {
    RawPeer killed(server->endpoint());
    ASSERT_TRUE(killed.join(0, 1));
  }  // the connection ends without a leave; the time-out is a minute
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  bool joined = false;
  while (!joined && steady_clock::now() < deadline) {
    RawPeer successor(server->endpoint());
    joined = successor.join(0, 2);  // refused until the server has noticed
  }
  EXPECT_TRUE(joined);
  ASSERT_FALSE(server.all<ClientLeft>().empty());
  EXPECT_FALSE(server.all<ClientLeft>().front().finished);
}

// A client's last messages may still be unread when the end of its connection shows: its last
// acknowledgement counts before the next client is told that it is alone.
TEST(Server, AClientIsAloneAfterWhatTheOthersSaidLast) {
  std::atomic<bool> admitted = false;
  std::vector<std::string> seen;  // written by the server's thread
  const Admission admit = admit_ranks(two_ranks());
  auto server = Server::create(
      quick(),
      [&](const JoinRequest& request) -> tl::expected<Welcome, Refusal> {
        if (request.hello.rank == 1 && !request.alone) {
          return tl::unexpected(Refusal{ErrorCode::kUnavailable, "ask again"});
        }
        if (request.hello.rank == 1 && !admitted) seen.emplace_back("admitted");
        admitted = request.hello.rank == 1;
        return admit(request);
      },
      [&](const ClientEvent& event) {
        if (const auto* done = std::get_if<Acknowledged>(&event)) {
          seen.push_back("step " + std::to_string(done->position.step));
        } else if (const auto* left = std::get_if<ClientLeft>(&event)) {
          seen.emplace_back(left->finished ? "left" : "lost");
        }
      },
      {});
  ASSERT_TRUE(server.has_value());
  RawPeer late((*server)->endpoint());
  Hello hello;
  hello.rank = 1;
  hello.client_id.fill(2);
  {
    RawPeer early((*server)->endpoint(), milliseconds(1000));
    ASSERT_TRUE(early.join(0, 1));
    late.send(hello);
    ASSERT_TRUE(late.receive_as<Refusal>().has_value());
    early.send(Acknowledgement{{0, 7, 0}});
    early.send(Leave{});
  }
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (!admitted && steady_clock::now() < deadline) {
    late.send(hello);
    std::this_thread::sleep_for(milliseconds(5));
  }
  ASSERT_TRUE(late.receive_as<Welcome>().has_value());
  server->reset();
  EXPECT_EQ(seen, (std::vector<std::string>{"step 7", "left", "admitted"}));
}

// A hello may overtake what another connection brought before: a client continues after the last
// acknowledgement of the one that has left.
TEST(Server, AdmitsTheNextClientOfARankAfterWhatTheLastOneSaid) {
  std::latch begun(1);
  std::latch left(1);
  std::vector<std::string> seen;
  const Admission admit = admit_ranks(two_ranks());
  const auto server = Server::create(
      quick(),
      [&](const JoinRequest& request) {
        if (request.hello.rank == 0) seen.emplace_back("admitted");
        return admit(request);
      },
      [&](const ClientEvent& event) {
        if (std::holds_alternative<CreditGranted>(event)) {
          begun.count_down();
          left.wait();
        }
        if (std::holds_alternative<Acknowledged>(event)) seen.emplace_back("acknowledged");
      },
      {});
  ASSERT_TRUE(server.has_value());
  RawPeer next((*server)->endpoint());
  ASSERT_TRUE(next.join(1, 2));
  {
    RawPeer last((*server)->endpoint(), milliseconds(1000));
    ASSERT_TRUE(last.join(0, 1));
    next.send(Credit{1, next.session()});
    begun.wait();  // so that both lie unread
    last.send(Acknowledgement{{0, 7, 0}});
    Hello hello;
    hello.rank = 0;
    hello.client_id.fill(2);
    next.send(hello);
  }
  std::this_thread::sleep_for(milliseconds(200));  // until the end of the connection has come
  left.count_down();
  ASSERT_TRUE(next.receive_as<Welcome>().has_value());
  EXPECT_EQ(seen, (std::vector<std::string>{"admitted", "acknowledged", "admitted"}));
}

TEST(Server, ATakenRankIsRefusedOnceItsClientIsAlive) {
  Recorded server(quick());
  RawPeer holder(server->endpoint());
  ASSERT_TRUE(holder.join(1, 1));
  RawPeer second(server->endpoint());
  Hello hello;
  hello.rank = 1;
  hello.client_id.fill(2);
  second.send(hello);
  auto refusal = second.receive_as<Refusal>();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnavailable);
  // Other sockets' messages may overtake the sign of life.
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (refusal && refusal->code == ErrorCode::kUnavailable && steady_clock::now() < deadline) {
    holder.send(Heartbeat{});
    second.send(hello);
    refusal = second.receive_as<Refusal>();
  }
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kAlreadyExists);
}

TEST(Server, AClientThatTakesAnotherRankLeavesItsFirst) {
  Recorded server(quick());
  RawPeer peer(server->endpoint());
  ASSERT_TRUE(peer.join(0, 1));
  ASSERT_TRUE(peer.join(1, 1));
  const auto left = server.all<ClientLeft>();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].rank, 0);
  peer.send(Credit{3, peer.session()});
  ASSERT_TRUE(server.wait_for<CreditGranted>(1));
  EXPECT_EQ(server.all<CreditGranted>()[0].rank, 1);
}

// A client whose hellos cross a slow node's welcomes would else be granted for each of them.
TEST(Server, CreditCountsOnlyForTheNewestHello) {
  Recorded server(quick());
  RawPeer peer(server->endpoint());
  ASSERT_TRUE(peer.join(0, 1));
  const std::uint64_t first = peer.session();
  ASSERT_TRUE(peer.join(0, 1));
  EXPECT_NE(peer.session(), first);
  peer.send(Credit{3, first});
  peer.send(Credit{2, peer.session()});
  ASSERT_TRUE(server.wait_for<CreditGranted>(1));
  EXPECT_EQ(server.all<CreditGranted>()[0].microbatches, 2U);
  EXPECT_EQ(server.all<CreditGranted>().size(), 1U);
}

TEST(Server, IgnoresStrangersAndAnswersNonsense) {
  Recorded server(quick());
  RawPeer stranger(server->endpoint());
  stranger.send(Credit{1});  // without a hello
  stranger.send_bytes(std::vector<std::byte>(100, std::byte{'x'}));
  const auto refusal = stranger.receive_as<Refusal>();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kCorrupt);
  EXPECT_TRUE(stranger.join(0, 1)) << "and goes on";
  EXPECT_TRUE(server.all<CreditGranted>().empty());
}

TEST(Server, TellsItsOwnHeartbeatAndTimeout) {
  Recorded server(quick());
  RawPeer peer(server->endpoint());
  peer.send(Hello{});
  const auto welcome = peer.receive_as<Welcome>();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->heartbeat_ms, 50U);
  EXPECT_EQ(welcome->heartbeat_timeout_ms, 60'000U);
  EXPECT_NE(welcome->node_id, 0U);
}

TEST(Server, ReleasesMicrobatchesThatNobodyReceives) {
  Recorded server(quick());
  const Watched nobody(1 << 20);
  server->fragment(0, nobody.fragment(0), nullptr);
  EXPECT_TRUE(nobody.is_released()) << "no client";

  const Watched left(1 << 20);
  {
    RawPeer peer(server->endpoint());
    ASSERT_TRUE(peer.join(0, 1));
    peer.send(Leave{});
    ASSERT_TRUE(server.wait_for<ClientLeft>(1));
    server->fragment(0, left.fragment(0), nullptr);
    EXPECT_TRUE(left.is_released()) << "the client left";
  }
  const Watched unread(64 << 20);
  const auto keep = std::make_shared<int>(1);
  RawPeer slow(server->endpoint());
  ASSERT_TRUE(slow.join(1, 1));
  server->fragment(1, unread.fragment(0), keep);
  const auto started = steady_clock::now();
  server.destroy();  // the client has not read it
  EXPECT_LT(steady_clock::now() - started, std::chrono::seconds(5));
  EXPECT_TRUE(unread.is_released()) << "the server is gone";
  EXPECT_EQ(keep.use_count(), 1);
}

TEST(Server, TellsHowLongItsThreadHasHung) {
  std::latch hangs(1);
  std::latch goes_on(1);
  const auto server = Server::create(quick(), admit_ranks(two_ranks()),
                                     [&](const ClientEvent& event) {
                                       if (!std::holds_alternative<ClientJoined>(event)) return;
                                       hangs.count_down();
                                       goes_on.wait();
                                     },
                                     {})
                          .value();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(server->since_last_turn(), milliseconds(250)) << "it looks each heartbeat";
  RawPeer peer(server->endpoint());
  peer.send(Hello());
  hangs.wait();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_GE(server->since_last_turn(), milliseconds(300));
  goes_on.count_down();
}

class IpcPath : public testing::Test {
 protected:
  ServerOptions at(const std::string& name) const {
    ServerOptions options = quick();
    options.bind = "ipc://" + (directory_ / name).string();
    return options;
  }
  static ErrorCode failure(const ServerOptions& options) {
    const auto server = Server::create(options, admit_ranks({}), [](const ClientEvent&) {}, {});
    return server ? ErrorCode::kInternal : server.error().code();
  }

  ScratchDirectory directory_ = ScratchDirectory::create("isocost-ipc").value();
};

TEST_F(IpcPath, ServesAndCleansUp) {
  {
    Recorded server(at("node"));
    RawPeer peer(server->endpoint());
    EXPECT_TRUE(peer.join(0, 1));
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "node"));
}

TEST_F(IpcPath, OfALivingNodeIsNotTaken) {
  Recorded server(at("node"));
  EXPECT_EQ(failure(at("node")), ErrorCode::kAlreadyExists);
  RawPeer peer(server->endpoint());
  EXPECT_TRUE(peer.join(0, 1)) << "the first still serves";
}

TEST_F(IpcPath, OfAFileIsNotTaken) {
  std::ofstream(directory_ / "notes.txt") << "keep me";
  EXPECT_EQ(failure(at("notes.txt")), ErrorCode::kAlreadyExists);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "notes.txt"), 7U);
}

TEST_F(IpcPath, OfADeadNodeIsTakenOver) {
  const std::string path = (directory_ / "node").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(dead);  // its socket file stays, as after a crash
  Recorded server(at("node"));
  RawPeer peer(server->endpoint());
  EXPECT_TRUE(peer.join(0, 1));
}

}  // namespace
}  // namespace isocost
