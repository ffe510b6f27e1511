#include "transport/zmq/internal/frames.h"

#include <utility>

namespace isocost {
namespace {

using Keep = std::shared_ptr<const void>;

void release_owner(void* /*data*/, void* hint) { delete static_cast<Keep*>(hint); }

}  // namespace

zmq::message_t copied_frame(std::span<const std::byte> bytes) {
  return {bytes.data(), bytes.size()};
}

zmq::message_t shared_frame(std::span<const std::byte> bytes, Keep keep) {
  auto hint = std::make_unique<Keep>(std::move(keep));
  // ZeroMQ does not write to what it sends; its interface is older than const.
  zmq::message_t frame(const_cast<std::byte*>(bytes.data()), bytes.size(), release_owner,
                       hint.get());
  [[maybe_unused]] const Keep* frames_own = hint.release();
  return frame;
}

bool send_frames(zmq::socket_t& socket, std::vector<zmq::message_t>& frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto more = i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    try {
      if (!socket.send(std::move(frames[i]), more | zmq::send_flags::dontwait)) return false;
    } catch (const zmq::error_t&) {
      return false;  // EHOSTUNREACH: the peer's connection is gone
    }
  }
  return true;
}

std::vector<zmq::message_t> receive_frames(zmq::socket_t& socket) {
  std::vector<zmq::message_t> frames;
  try {
    for (bool more = true; more;) {
      zmq::message_t frame;
      if (!socket.recv(frame, zmq::recv_flags::dontwait)) return {};
      more = frame.more();
      frames.push_back(std::move(frame));
    }
  } catch (const zmq::error_t&) {
    return {};  // EINTR: the next poll reports the message again
  }
  return frames;
}

}  // namespace isocost
