#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>
#include <zmq.hpp>

namespace isocost {

/// Returns a frame with its own copy of the bytes.
zmq::message_t copied_frame(std::span<const std::byte> bytes);

/// Returns a frame over bytes that `keep` owns. `keep` is released on any thread when ZeroMQ no
/// longer needs them.
zmq::message_t shared_frame(std::span<const std::byte> bytes, std::shared_ptr<const void> keep);

/// Sends all frames as one message. Returns false if that is not possible at once, because the peer
/// is gone.
bool send_frames(zmq::socket_t& socket, std::vector<zmq::message_t>& frames);

/// Returns the frames of the next message; empty if none has arrived.
std::vector<zmq::message_t> receive_frames(zmq::socket_t& socket);

inline std::span<const std::byte> bytes_of(const zmq::message_t& frame) {
  return {static_cast<const std::byte*>(frame.data()), frame.size()};
}

}  // namespace isocost
