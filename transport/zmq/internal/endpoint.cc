#include "transport/zmq/internal/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>

namespace isocost {
namespace {

constexpr std::string_view kIpc = "ipc://";

// Returns the endpoint's socket file; empty if it has none with a known name ('*' lets ZeroMQ
// choose one, '@' begins a name without a file).
std::optional<std::string> path_of(std::string_view endpoint) {
  if (!endpoint.starts_with(kIpc)) return std::nullopt;
  std::string path(endpoint.substr(kIpc.size()));
  if (path.empty() || path == "*" || path.front() == '@') return std::nullopt;
  return path;
}

bool has_listener(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof(address.sun_path)) return false;  // no socket has such a path
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return true;  // not known, so the file is left alone
  const bool refused =
      connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  close(descriptor);
  return !refused;
}

// Returns whether `text` is '*' or a number of 16 bits: ZeroMQ would use a larger one modulo
// 65,536.
bool is_port(std::string_view text) {
  if (text == "*") return true;
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  return code == std::errc() && end == text.data() + text.size();
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "[::1]" || host == "lo") return true;
  in_addr address{};
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

}  // namespace

Result<bool> is_local_endpoint(std::string_view endpoint) {
  if (endpoint.starts_with(kIpc) && endpoint.size() > kIpc.size()) return true;
  const auto colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon <= kTcp.size() || !is_port(endpoint.substr(colon + 1))) {
    return Error(
        ErrorCode::kInvalidArgument,
        "'" + std::string(endpoint) +
            "' is not an endpoint: write tcp://HOST:PORT (port up to 65535) or ipc://PATH");
  }
  return is_loopback(endpoint.substr(kTcp.size(), colon - kTcp.size()));
}

Status check_path_is_free(std::string_view endpoint) {
  const auto path = path_of(endpoint);
  struct stat status{};
  if (!path || lstat(path->c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return Error(ErrorCode::kAlreadyExists,
                 "bind: " + *path + " exists and is not a socket: choose another path");
  }
  if (status.st_uid != geteuid() || has_listener(*path)) {
    return Error(ErrorCode::kAlreadyExists,
                 "bind: " + std::string(endpoint) +
                     " is in use: stop the program that listens there, or choose another path");
  }
  return {};
}

void remove_path(std::string_view endpoint) {
  const auto path = path_of(endpoint);
  struct stat status{};
  if (path && lstat(path->c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) unlink(path->c_str());
}

}  // namespace isocost
