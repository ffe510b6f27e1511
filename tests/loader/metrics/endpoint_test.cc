// The endpoint against real sockets: its answers, and that no client can block it.

#include "loader/metrics/endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isocost {
namespace {

// A client's socket with a time-out on each call.
class Socket {
 public:
  explicit Socket(std::uint16_t port)
      : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval deadline{20, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
    setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(Socket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
  Socket& operator=(Socket&&) = delete;

  bool connected() const { return connected_; }
  void write(std::string_view bytes) const {
    send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Until the other side closes.
  std::string read_all() const {
    std::string all;
    std::array<char, 4096> bytes{};
    for (;;) {
      const auto got = recv(descriptor_, bytes.data(), bytes.size(), 0);
      if (got <= 0) return all;
      all.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

std::uint16_t port_of(const MetricsEndpoint& endpoint) {
  const std::string& url = endpoint.url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::string request(const MetricsEndpoint& endpoint, const std::string& first_line) {
  const Socket client(port_of(endpoint));
  client.write(first_line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  return client.read_all();
}

std::unique_ptr<MetricsEndpoint> serve(std::function<PageText()> text) {
  auto endpoint = MetricsEndpoint::create(
      {"127.0.0.1", 0, true},
      {{"/metrics", "text/plain; version=0.0.4; charset=utf-8", std::move(text)},
       {"/timeline.svg", "image/svg+xml", [] { return std::string("<svg/>"); }}});
  EXPECT_TRUE(endpoint.has_value()) << endpoint.error().message();
  return *std::move(endpoint);
}

TEST(MetricsEndpoint, ServesTheCurrentText) {
  int asked = 0;
  const auto endpoint = serve([&asked] { return "a " + std::to_string(++asked) + "\n"; });
  const std::string first = request(*endpoint, "GET /metrics");
  EXPECT_TRUE(first.starts_with("HTTP/1.1 200 ")) << first;
  EXPECT_NE(first.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << first;
  EXPECT_TRUE(first.ends_with("\r\n\r\na 1\n")) << first;
  EXPECT_TRUE(request(*endpoint, "GET /metrics?x=y").ends_with("\r\n\r\na 2\n"));
}

TEST(MetricsEndpoint, APageThatIsNotWellHasAnotherStatus) {
  const auto endpoint = serve([] { return PageText("stalled: rank 3\n", false); });
  const std::string page = request(*endpoint, "GET /metrics");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 503 ")) << page;
  EXPECT_TRUE(page.ends_with("\r\n\r\nstalled: rank 3\n")) << page;
}

TEST(MetricsEndpoint, OtherPathsAreNotFound) {
  const auto endpoint = serve([] { return PageText("a 1\n"); });
  const std::string nothing = request(*endpoint, "GET /");
  EXPECT_TRUE(nothing.starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(nothing.ends_with("not found; pages: /metrics /timeline.svg\n")) << nothing;
  const std::string picture = request(*endpoint, "GET /timeline.svg");
  EXPECT_NE(picture.find("Content-Type: image/svg+xml"), std::string::npos) << picture;
  EXPECT_TRUE(request(*endpoint, "GET /metrics/../etc").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(request(*endpoint, "POST /metrics").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(request(*endpoint, "\x01\xff\x00").starts_with("HTTP/1."));
  EXPECT_EQ(request(*endpoint, "HEAD /metrics").find("a 1"), std::string::npos);
}

// Some clients do not read a large answer, some never finish their request, and one sends a request
// that is too long. The next client is still served, and the destructor does not wait for them.
TEST(MetricsEndpoint, ClientsThatReadNothingDoNotBlockOthers) {
  auto endpoint = serve([] { return std::string(8 << 20, '#'); });
  const std::uint16_t port = port_of(*endpoint);
  std::vector<Socket> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(port).write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");  // reads nothing
    clients.emplace_back(port).write("GET /met");
    clients.emplace_back(port);
  }
  const Socket long_one(port);
  long_one.write("GET /metrics HTTP/1.1\r\nX: " + std::string(200'000, 'x'));
  EXPECT_NE(long_one.read_all().find(" 4"), std::string::npos);
  const std::string answer = request(*endpoint, "GET /metrics");
  EXPECT_GT(answer.size(), std::size_t{8} << 20);
  endpoint.reset();
  EXPECT_FALSE(Socket(port).connected());
}

TEST(MetricsEndpoint, APortInUseIsNamed) {
  const auto endpoint = serve([] { return std::string(); });
  const auto second =
      MetricsEndpoint::create({"127.0.0.1", port_of(*endpoint), true},
                              {{"/metrics", "text/plain", [] { return std::string(); }}});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_NE(second.error().message().find("127.0.0.1:" + std::to_string(port_of(*endpoint))),
            std::string::npos)
      << second.error().message();
}

TEST(MetricsEndpoint, AnAddressOfAnotherHostIsNamed) {
  const auto endpoint = MetricsEndpoint::create(
      {"192.0.2.1", 0, false}, {{"/metrics", "text/plain", [] { return std::string(); }}});
  ASSERT_FALSE(endpoint.has_value());
  EXPECT_EQ(endpoint.error().code(), ErrorCode::kInvalidArgument);
}

TEST(MetricsAddress, ReadsPortsAndAddresses) {
  const auto expect = [](const char* text, const char* host, std::uint16_t port, bool loopback) {
    const auto address = parse_metrics_address(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->host, host) << text;
    EXPECT_EQ(address->port, port) << text;
    EXPECT_EQ(address->loopback, loopback) << text;
  };
  expect("9464", "127.0.0.1", 9464, true);
  expect("localhost:1", "127.0.0.1", 1, true);
  expect("127.0.0.2:65535", "127.0.0.2", 65535, true);
  expect("0.0.0.0:0", "0.0.0.0", 0, false);
  expect("[::1]:9464", "::1", 9464, true);
  expect("[::]:9464", "::", 9464, false);
}

TEST(MetricsAddress, RefusesInvalidAddresses) {
  for (const char* text : {"", ":", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "127.0.0.1:9464 ", "::1:9464", "[::1]", "[127.0.0.1]:1",
                           "host:9464", "http://127.0.0.1:9464"}) {
    const auto address = parse_metrics_address(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace isocost
