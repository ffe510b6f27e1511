#include "loader/metrics/endpoint.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

namespace isocost {
namespace {

constexpr unsigned kMostConnections = 32;
constexpr unsigned kSilenceSeconds = 10;
constexpr std::size_t kConnectionBytes = 16'384;  // holds the head of a request
constexpr int kBacklog = 32;

Error no_address(std::string_view text) {
  return {ErrorCode::kInvalidArgument, "'" + std::string(text) +
                                           "' is not an address to serve metrics at: give PORT, "
                                           "ADDRESS:PORT or [IPV6]:PORT with a numeric address"};
}

std::string host_and_port(const MetricsAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

// A socket address of either family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Fills in the address. Returns false if the host is not a numeric address.
bool fill(const MetricsAddress& address, SocketAddress& out) {
  sockaddr_in v4{};
  if (inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&out.storage, &v4, sizeof(v4));
    out.size = sizeof(v4);
    return true;
  }
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) != 1) return false;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  std::memcpy(&out.storage, &v6, sizeof(v6));
  out.size = sizeof(v6);
  return true;
}

bool is_loopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof(v4));
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof(v6));
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

Error cannot_listen(const MetricsAddress& address, int cause) {
  const std::string where = "metrics = " + host_and_port(address) + ": ";
  switch (cause) {
    case EADDRINUSE:
      return {ErrorCode::kAlreadyExists,
              where + "something listens there already; choose another port, or 0 for a free one"};
    case EADDRNOTAVAIL:
      return {ErrorCode::kInvalidArgument, where + "this host has no such address"};
    case EACCES:
      return {ErrorCode::kInvalidArgument,
              where + "that port needs privileges; choose a higher one"};
    default:
      return {ErrorCode::kIo, where + std::strerror(cause)};  // NOLINT(concurrency-mt-unsafe)
  }
}

// Binds and listens here because libmicrohttpd could not say why it failed. Fills in the port.
Result<int> listen_at(MetricsAddress& address) {
  SocketAddress at;
  if (!fill(address, at)) return no_address(address.host);
  const int descriptor =
      socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return cannot_listen(address, errno);
  const int yes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(descriptor, at.get(), at.size) != 0 || listen(descriptor, kBacklog) != 0 ||
      getsockname(descriptor, at.get(), &at.size) != 0) {
    const Error error = cannot_listen(address, errno);
    close(descriptor);
    return error;
  }
  // The port is at the same offset in the addresses of both families.
  sockaddr_in named{};
  std::memcpy(&named, &at.storage, sizeof(named));
  address.port = ntohs(named.sin_port);
  return descriptor;
}

class Endpoint final : public MetricsEndpoint {
 public:
  Endpoint(std::string url, std::vector<MetricsPage> pages)
      : url_(std::move(url)), pages_(std::move(pages)) {}
  ~Endpoint() override {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Status start(int descriptor) {
    daemon_ =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, nullptr, nullptr, &on_request, this,
                         MHD_OPTION_LISTEN_SOCKET, descriptor, MHD_OPTION_CONNECTION_LIMIT,
                         kMostConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSilenceSeconds,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
    if (daemon_ != nullptr) return {};
    close(descriptor);
    return Error(ErrorCode::kUnavailable, url_ + ": cannot start the serving thread");
  }

  const std::string& url() const override { return url_; }

 private:
  static MHD_Result answer(MHD_Connection* connection, unsigned status, std::string_view type,
                           std::string text) {
    MHD_Response* response =
        MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, std::string(type).c_str());
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
      MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    const MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path,
                               const char* method, const char* /*version*/, const char* /*body*/,
                               std::size_t* /*body_bytes*/, void** /*state*/) {
    constexpr std::string_view kPlain = "text/plain; charset=utf-8";
    const std::string_view wanted = method;
    if (wanted != MHD_HTTP_METHOD_GET && wanted != MHD_HTTP_METHOD_HEAD) {
      return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, kPlain, "only GET and HEAD\n");
    }
    std::string paths;
    for (const MetricsPage& page : static_cast<Endpoint*>(self)->pages_) {
      if (page.path == path) {
        PageText says = page.text();
        const unsigned status = says.well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
        return answer(connection, status, page.type, std::move(says.text));
      }
      paths += " " + page.path;
    }
    return answer(connection, MHD_HTTP_NOT_FOUND, kPlain, "not found; pages:" + paths + "\n");
  }

  const std::string url_;
  const std::vector<MetricsPage> pages_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace

Result<MetricsAddress> parse_metrics_address(std::string_view text) {
  MetricsAddress address;
  const std::size_t colon = text.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (code != std::errc() || end != port.data() + port.size()) return no_address(text);

  std::string_view host = colon == std::string_view::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  address.host = host;
  SocketAddress at;
  const bool v6 = host.find(':') != std::string_view::npos;
  if (v6 != bracketed || !fill(address, at)) return no_address(text);
  address.loopback = is_loopback(at);
  return address;
}

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::create(const MetricsAddress& address,
                                                                 std::vector<MetricsPage> pages) {
  MetricsAddress bound = address;
  ISOCOST_ASSIGN(const int descriptor, listen_at(bound));
  std::string url = "http://" + host_and_port(bound) + pages.front().path;
  auto endpoint = std::make_unique<Endpoint>(std::move(url), std::move(pages));
  ISOCOST_TRY(endpoint->start(descriptor));
  return std::unique_ptr<MetricsEndpoint>(std::move(endpoint));
}

}  // namespace isocost
