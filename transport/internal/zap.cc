#include "transport/internal/zap.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "transport/internal/frames.h"

namespace isocost {

KeyGate::KeyGate(zmq::context_t& context, const std::vector<std::string>& allowed)
    : allowed_(allowed.begin(), allowed.end()), socket_(context, zmq::socket_type::rep) {
  socket_.bind("inproc://zeromq.zap.01");
}

void KeyGate::answer() {
  // version, request id, domain, address, identity, mechanism, credentials (the raw public key)
  const std::vector<zmq::message_t> request = receive_frames(socket_);
  if (request.size() < 2) return;
  bool allowed = false;
  if (request.size() == 7 && request[5].to_string_view() == "CURVE" && request[6].size() == 32) {
    std::array<char, 41> text{};
    zmq_z85_encode(text.data(), request[6].data<std::uint8_t>(), request[6].size());
    allowed = allowed_.contains(text.data());
  }
  const std::array<std::string_view, 6> reply = {
      "1.0", request[1].to_string_view(), allowed ? "200" : "400", allowed ? "" : "unknown key", "",
      ""};
  std::vector<zmq::message_t> frames;
  frames.reserve(reply.size());
  for (const std::string_view part : reply) frames.emplace_back(part.data(), part.size());
  send_frames(socket_, frames);
}

}  // namespace isocost
