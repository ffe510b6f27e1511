// The options that a node and its clients ask of the system for their TCP connections.

#include "transport/zmq/internal/lost_peers.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "base/file_descriptor.h"
#include "tests/support/admit_ranks.h"
#include "transport/zmq/connection.h"
#include "transport/zmq/server.h"

namespace isocost {
namespace {

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(socket, level, name, &value, &size) == 0 ? value : -1;
}

struct Limits {
  int probes = 0;  // whether there are any
  int idle_s = 0;  // before the first
  int interval_s = 0;
  int time_out_ms = 0;
  auto operator<=>(const Limits&) const = default;
};

// Returns the limits of this process's ends of TCP connections.
std::vector<Limits> connections() {
  std::vector<Limits> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    const bool has_peer = getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (!has_peer || peer.sin_family != AF_INET) continue;
    found.push_back({option(descriptor, SOL_SOCKET, SO_KEEPALIVE),
                     option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE),
                     option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL),
                     option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT)});
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(LostPeers, BothEndsLimitSilence) {
  ServerOptions options;
  options.bind = "tcp://127.0.0.1:*";
  options.heartbeat_timeout = std::chrono::milliseconds(60'000);
  const auto server = Server::create(options, admit_ranks({}), [](const auto&) {}, {}).value();
  std::promise<void> welcomed;
  ConnectionHandlers handlers;
  handlers.hello = [] { return Hello{}; };
  handlers.on_message = [&](const Message& message, std::span<const std::span<const std::byte>>) {
    if (std::holds_alternative<Welcome>(message)) welcomed.set_value();
  };
  handlers.on_error = [](const Error& error) { ADD_FAILURE() << error.to_string(); };
  handlers.on_tick = [](std::chrono::nanoseconds) {};
  handlers.descriptor = [] { return -1; };
  handlers.on_readable = [] {};
  ConnectionOptions own;
  own.endpoint = server->endpoint();
  const auto connection = Connection::open(own).value();
  ASSERT_TRUE(connection->start(std::move(handlers)));
  ASSERT_EQ(welcomed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  const Limits client{1, 15, 3, 30'000};
  const Limits node{1, 30, 6, 60'000};
  EXPECT_EQ(connections(), (std::vector<Limits>{client, node}));
  connection->stop();
}

TEST(LostPeers, AShortTimeOutIsProbedEverySecond) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  close_lost_connections(socket, std::chrono::milliseconds(300));
  EXPECT_EQ(socket.get(zmq::sockopt::tcp_keepalive_idle), 1);
  EXPECT_EQ(socket.get(zmq::sockopt::tcp_keepalive_intvl), 1);
  EXPECT_EQ(socket.get(zmq::sockopt::tcp_maxrt), 300);
}

// libzmq sets the limits only in a connection that it has accepted, so an impossible one would end
// it.
TEST(LostPeers, ALongTimeOutIsOneThatTheSystemTakes) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  close_lost_connections(socket, std::chrono::hours(24));
  const FileDescriptor tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto takes = [&tcp](int name, int value) {
    return setsockopt(tcp.get(), IPPROTO_TCP, name, &value, sizeof(value)) == 0;
  };
  EXPECT_TRUE(takes(TCP_KEEPIDLE, socket.get(zmq::sockopt::tcp_keepalive_idle)));
  EXPECT_TRUE(takes(TCP_KEEPINTVL, socket.get(zmq::sockopt::tcp_keepalive_intvl)));
  EXPECT_TRUE(takes(TCP_USER_TIMEOUT, socket.get(zmq::sockopt::tcp_maxrt)));
}

}  // namespace
}  // namespace isocost
