#include "transport/zmq/internal/key_gate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "transport/zmq/internal/frames.h"

namespace isocost {

namespace {

constexpr const char* kAddress = "inproc://zeromq.zap.01";

// Compares in constant time.
bool is_same(std::string_view shown, std::string_view key) {
  unsigned differences = shown.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(shown.size(), key.size()); ++i) {
    differences |= static_cast<unsigned char>(shown[i] ^ key[i]);
  }
  return differences == 0;
}

}  // namespace

KeyGate::KeyGate(zmq::context_t& context, const std::vector<std::string>& allowed)
    : allowed_(allowed.begin(), allowed.end()), socket_(context, zmq::socket_type::rep) {
  socket_.bind(kAddress);
}

KeyGate::KeyGate(zmq::context_t& context, std::string job_key)
    : job_key_(std::move(job_key)), socket_(context, zmq::socket_type::rep) {
  socket_.bind(kAddress);
}

// Frames of a request: version, request id, domain, address, identity, mechanism, credentials (the
// raw public key, or a name and a password).
bool KeyGate::admits(const std::vector<zmq::message_t>& request) const {
  const std::string_view mechanism = request.size() > 5 ? request[5].to_string_view() : "";
  if (mechanism == "PLAIN") {
    return !job_key_.empty() && request.size() == 8 &&
           is_same(request[7].to_string_view(), job_key_);
  }
  if (mechanism != "CURVE" || request.size() != 7 || request[6].size() != 32) return false;
  std::array<char, 41> text{};
  zmq_z85_encode(text.data(), request[6].data<std::uint8_t>(), request[6].size());
  return allowed_.contains(text.data());
}

std::optional<std::string> KeyGate::answer() {
  const std::vector<zmq::message_t> request = receive_frames(socket_);
  if (request.size() < 2) return std::nullopt;
  const bool allowed = admits(request);
  const std::array<std::string_view, 6> reply = {
      "1.0", request[1].to_string_view(), allowed ? "200" : "400", allowed ? "" : "unknown key", "",
      ""};
  std::vector<zmq::message_t> frames;
  frames.reserve(reply.size());
  for (const std::string_view part : reply) frames.emplace_back(part.data(), part.size());
  send_frames(socket_, frames);
  if (allowed) return std::nullopt;
  return "a client at " + std::string(request.size() > 3 ? request[3].to_string_view() : "?") +
         (job_key_.empty() ? " was refused: its CURVE key is not among curve_clients"
                           : " was refused: it did not show the job key, which only this user's "
                             "programs on this machine find");
}

}  // namespace isocost
