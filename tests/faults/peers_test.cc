// Peers of a node that have no business with it.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/sanitized.h"
#include "tests/support/admit_ranks.h"
#include "transport/zmq/connection.h"
#include "transport/zmq/server.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kHeartbeatTimeout{1000};

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class Peers : public testing::Test {
 protected:
  std::unique_ptr<Server> serve(bool insecure) {
    ServerOptions options;
    options.bind = "tcp://127.0.0.1:*";
    options.insecure = insecure;
    options.heartbeat = milliseconds(50);
    options.heartbeat_timeout = kHeartbeatTimeout;
    Welcome welcome;
    welcome.ranks = 2;
    return Server::create(
               options, admit_ranks(welcome),
               [this](const ClientEvent& event) {
                 if (std::holds_alternative<ClientJoined>(event)) ++joined_;
               },
               [this](LogLevel, std::string_view text) {
                 const MutexLock lock(mutex_);
                 logged_ += text;
               })
        .value();
  }
  // A client with the keys that it finds.
  static std::unique_ptr<Connection> connect(const std::string& endpoint) {
    ConnectionOptions options;
    options.endpoint = endpoint;
    auto connection = Connection::open(options).value();
    EXPECT_TRUE(connection->start({.hello = [] { return Hello{}; },
                                   .on_message = [](const Message&, auto) {},
                                   .on_error = [](const Error&) {},
                                   .on_tick = [](std::chrono::nanoseconds) {},
                                   .descriptor = [] { return -1; },
                                   .on_readable = [] {}}));
    return connection;
  }
  bool wait_for_a_client() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (joined_ == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return joined_ > 0;
  }
  static fs::path key_file(const std::string& endpoint) {
    const std::string name = endpoint.substr(std::string("tcp://").size()) + ".key";
    const std::string user = std::to_string(geteuid());
    for (const fs::path directory : {"/run/user/" + user + "/isocost", "/tmp/isocost-" + user}) {
      if (fs::exists(directory / name)) return directory / name;
    }
    return {};
  }

  static std::string key_of(const std::string& endpoint) {
    std::string key;
    std::ifstream(key_file(endpoint)) >> key;
    return key;
  }
  std::string logged() {
    const MutexLock lock(mutex_);
    return logged_;
  }

  std::atomic<int> joined_ = 0;

 private:
  Mutex mutex_;
  std::string logged_ ISOCOST_GUARDED_BY(mutex_);
};

// A socket that knows nothing of keys, or shows a wrong one, and sends a hello.
class Stranger {
 public:
  Stranger(const std::string& endpoint, const std::string& password)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndtimeo, 100);
    socket_.set(zmq::sockopt::rcvtimeo, 1000);
    if (!password.empty()) {
      socket_.set(zmq::sockopt::plain_username, "isocost");
      socket_.set(zmq::sockopt::plain_password, password);
    }
    socket_.connect(endpoint);
  }
  bool send(std::size_t bytes, zmq::send_flags flags = zmq::send_flags::none) {
    try {
      return socket_.send(zmq::message_t(bytes), flags).has_value();
    } catch (const zmq::error_t&) {
      return false;
    }
  }
  bool is_answered() {
    const std::vector<std::byte> hello = encode(Hello{});
    socket_.send(zmq::message_t(hello.data(), hello.size()), zmq::send_flags::none);
    zmq::message_t answer;
    return socket_.recv(answer).has_value();
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

TEST_F(Peers, ClientsOfTheSameUserFindTheJobKey) {
  const auto server = serve(false);
  const auto client = connect(server->endpoint());
  EXPECT_TRUE(wait_for_a_client());
}

TEST_F(Peers, TheJobKeyIsForThisUserAloneAndGoesWithTheNode) {
  auto server = serve(false);
  const fs::path key = key_file(server->endpoint());
  ASSERT_FALSE(key.empty());
  struct stat file{};
  struct stat directory{};
  ASSERT_EQ(stat(key.c_str(), &file), 0);
  ASSERT_EQ(stat(key.parent_path().c_str(), &directory), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
  EXPECT_EQ(directory.st_mode & 0777, 0700U);
  server.reset();
  EXPECT_FALSE(fs::exists(key));
}

TEST_F(Peers, WhoHasNoJobKeyGetsNothing) {
  const auto server = serve(false);
  EXPECT_FALSE(Stranger(server->endpoint(), "").is_answered());
  EXPECT_FALSE(Stranger(server->endpoint(), std::string(64, '0')).is_answered());
  EXPECT_NE(logged().find("did not show the job key"), std::string::npos) << logged();
  EXPECT_EQ(joined_, 0);
  EXPECT_TRUE(Stranger(serve(true)->endpoint(), "").is_answered()) << "with --insecure it would";
}

// Cleaners of /tmp remove keys, and killed nodes leave theirs.
TEST_F(Peers, AJobKeyThatWasRemovedIsWrittenAgainAndOneThatWasLeftIsRemoved) {
  const auto server = serve(false);
  const fs::path key = key_file(server->endpoint());
  ASSERT_FALSE(key.empty());
  const fs::path dead = key.parent_path() / "127.0.0.1:1.key";
  const fs::path young = key.parent_path() / "127.0.0.1:2.key";
  std::ofstream(dead) << "dead";
  std::ofstream(young) << "young";
  fs::last_write_time(dead, fs::file_time_type::clock::now() - std::chrono::hours(25));
  fs::remove(key);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!fs::exists(key) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  const auto client = connect(server->endpoint());
  EXPECT_TRUE(wait_for_a_client());
  const auto next = serve(false);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(young));
  fs::remove(young);
}

// A node that was killed leaves its key; what listens on its port next, a proxy or a tunnel to a
// node that asks for none, does not know it.
TEST_F(Peers, AKeyThatADeadNodeLeftDoesNotKeepAClientOut) {
  const auto server = serve(true);
  const auto with_key = serve(false);
  const fs::path left = key_file(with_key->endpoint()).parent_path() /
                        (server->endpoint().substr(std::string("tcp://").size()) + ".key");
  std::ofstream(left) << std::string(64, '0');
  const auto client = connect(server->endpoint());
  EXPECT_TRUE(wait_for_a_client());
  EXPECT_TRUE(fs::remove(left));
}

TEST_F(Peers, AConnectionWithoutAHandshakeIsClosedAfterFiveSeconds) {
  const auto server = serve(false);
  const std::string& endpoint = server->endpoint();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  const FileDescriptor peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(::connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const timeval most{15, 0};
  setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  std::array<char, 256> greeting{};
  ssize_t received = 0;
  while ((received = recv(peer.get(), greeting.data(), greeting.size(), 0)) > 0) {
  }
  const bool closed = received == 0 || errno == ECONNRESET;
  EXPECT_TRUE(closed) << "it is still open";
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

// Trainers may start before their node, and outlive it.
TEST_F(Peers, AClientThatIsThereBeforeTheNodeFindsItsKeyLater) {
  std::string endpoint = serve(false)->endpoint();
  const auto client = connect(endpoint);
  std::this_thread::sleep_for(milliseconds(300));
  ServerOptions options;
  options.bind = endpoint;
  Welcome welcome;
  welcome.ranks = 1;
  const auto server = Server::create(options, admit_ranks(welcome),
                                     [this](const ClientEvent& event) {
                                       if (std::holds_alternative<ClientJoined>(event)) ++joined_;
                                     },
                                     {})
                          .value();
  EXPECT_TRUE(wait_for_a_client());
}

// It reads no more than two messages of 1 MiB, and answers no heartbeat once it has stopped.
TEST_F(Peers, ARankThatFreezesWithinAFragmentGivesItsMemoryBack) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto server = serve(false);
  zmq::context_t context;
  zmq::socket_t frozen(context, zmq::socket_type::dealer);
  frozen.set(zmq::sockopt::linger, 0);
  frozen.set(zmq::sockopt::rcvhwm, 1);
  frozen.set(zmq::sockopt::rcvbuf, 1 << 16);
  frozen.set(zmq::sockopt::plain_username, "isocost");
  frozen.set(zmq::sockopt::plain_password, key_of(server->endpoint()));
  frozen.connect(server->endpoint());
  const std::vector<std::byte> hello = encode(Hello{});
  frozen.send(zmq::message_t(hello.data(), hello.size()), zmq::send_flags::none);
  ASSERT_TRUE(wait_for_a_client());
  auto bytes = std::make_shared<std::vector<std::byte>>(kBytes);
  const std::weak_ptr<const void> held = bytes;
  Fragment fragment{{}, 0, {}};
  fragment.tensors.push_back(
      {"vision.patches", {DType::kUInt8, {1, std::ssize(*bytes)}, bytes->data(), bytes}});
  bytes.reset();
  server->fragment(0, std::move(fragment), nullptr);
  std::this_thread::sleep_for(kHeartbeatTimeout / 2);
  EXPECT_FALSE(held.expired()) << "it was sent whole, so that nothing is tested";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!held.expired() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(held.expired());
}

// The bound is far above what a connection costs, and far below what was sent.
TEST_F(Peers, FramesWithoutEndOfAPeerWithoutAKeyAreNotKept) {
  const auto server = serve(false);
  Stranger stranger(server->endpoint(), "");
  const std::int64_t before = resident_bytes();
  for (int i = 0; i < 2000; ++i) stranger.send(std::size_t{64} << 10, zmq::send_flags::sndmore);
  EXPECT_LT(resident_bytes() - before, std::int64_t{64} << 20);
  const auto client = connect(server->endpoint());
  EXPECT_TRUE(wait_for_a_client());
}

TEST_F(Peers, AnswersThatAreNeverReadDoNotPileUp) {
  const auto server = serve(true);
  Stranger stranger(server->endpoint(), "");
  ASSERT_TRUE(stranger.is_answered());
  [[maybe_unused]] const std::int64_t before = resident_bytes();
  for (int i = 0; i < 300'000; ++i) stranger.send(8);  // no message of ours
  const auto client = connect(server->endpoint());
  EXPECT_TRUE(wait_for_a_client());
  if (kIsSanitized) return;  // they keep what is freed
  EXPECT_LT(resident_bytes() - before, std::int64_t{48} << 20);
}

}  // namespace
}  // namespace isocost
