#include "tests/trainer_adapter/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace isocost {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool write_all(int to, const char* data, ssize_t size) {
  while (size > 0) {
    const ssize_t written = send(to, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
    if (written <= 0) return false;
    data += written;
    size -= written;
  }
  return true;
}

}  // namespace

TcpProxy::TcpProxy(std::uint16_t port) : target_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, raw, size) != 0 || listen(listener_, 8) != 0 ||
      getsockname(listener_, raw, &size) != 0) {
    throw std::runtime_error("no socket for the proxy");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

TcpProxy::~TcpProxy() {
  thread_.request_stop();
  thread_.join();
  close(listener_);
}

void TcpProxy::run(const std::stop_token& stop) {
  using Pair = std::pair<int, int>;  // client, node
  std::vector<Pair> pairs;
  std::array<char, 65536> bytes{};
  std::uint64_t seen = 0;
  const auto drop_all = [&pairs] {
    for (const auto& [client, node] : pairs) {
      close(client);
      close(node);
    }
    pairs.clear();
  };
  while (!stop.stop_requested()) {
    if (const std::uint64_t now = generation_; now != seen) {
      seen = now;
      drop_all();
    }
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const auto& [client, node] : pairs) {
      polled.push_back({client, static_cast<short>(held_ ? 0 : POLLIN), 0});
      polled.push_back({node, POLLIN, 0});
    }
    if (poll(polled.data(), polled.size(), 5) <= 0) continue;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const Pair pair = pairs[(i - 1) / 2];
      const bool from_node = i % 2 == 0;
      const ssize_t size = recv(polled[i].fd, bytes.data(), bytes.size(), 0);
      if (size <= 0 || !write_all(from_node ? pair.first : pair.second, bytes.data(), size)) {
        drop_all();
        break;
      }
      if (from_node) bytes_to_client_ += static_cast<std::uint64_t>(size);
      if (bytes_to_client_ >= cut_at_) {
        cut_at_ = UINT64_MAX;
        drop_all();
        break;
      }
    }
    if ((polled.front().revents & POLLIN) != 0) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int node = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address = loopback(target_);
      if (connect(node, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
        pairs.emplace_back(client, node);
      } else {
        close(client);
        close(node);
      }
    }
  }
  drop_all();
}

}  // namespace isocost
