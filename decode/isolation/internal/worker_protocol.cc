#include "decode/isolation/internal/worker_protocol.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

namespace isocost {

std::string to_json(const WorkerSetup& setup) {
  return nlohmann::json{{"version", ISOCOST_VERSION},
                        {"cpu_time_ns", setup.cpu_time_ns},
                        {"memory", setup.memory},
                        {"recipe", setup.recipe}}
      .dump();
}

Result<WorkerSetup> parse_worker_setup(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error(ErrorCode::kCorrupt, "not a decode worker's setup");
  try {
    if (json.at("version") != ISOCOST_VERSION) {
      return Error(ErrorCode::kUnsupported, "this decode worker is of version " ISOCOST_VERSION);
    }
    WorkerSetup setup;
    json.at("cpu_time_ns").get_to(setup.cpu_time_ns);
    json.at("memory").get_to(setup.memory);
    json.at("recipe").get_to(setup.recipe);
    return setup;
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::kCorrupt, std::string("decode worker's setup: ") + error.what());
  }
}

Status send_packet(int socket, std::span<const std::byte> packet) {
  for (;;) {
    const ssize_t sent = send(socket, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return {};
    if (errno == EAGAIN) return Error(ErrorCode::kResourceExhausted, "the other end does not read");
    if (errno != EINTR) return Error(ErrorCode::kUnavailable, "the other end is gone");
  }
}

std::string receive_packet(int socket, std::optional<pid_t> parent) {
  std::string packet(kMaxPacket, '\0');
  ssize_t got = 0;
  // With a parent, the socket has a time-out, after which the parent is checked: the connection of
  // a killed parent stays open while another of its children has inherited it.
  do {
    got = recv(socket, packet.data(), packet.size(), parent ? 0 : MSG_DONTWAIT);
  } while (got < 0 && (errno == EINTR || (parent && errno == EAGAIN && getppid() == *parent)));
  packet.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return packet;
}

}  // namespace isocost
