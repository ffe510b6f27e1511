#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>
#include <zmq.hpp>

namespace isocost {

/// A frame that holds its own copy of the bytes.
zmq::message_t copied_frame(std::span<const std::byte> bytes);

/// A frame over bytes that `keep` owns; `keep` is let go when ZeroMQ has no use for them, on any
/// thread.
zmq::message_t shared_frame(std::span<const std::byte> bytes, std::shared_ptr<const void> keep);

/// Sends all frames as one message. False where it could not be sent at once (the peer is gone).
bool send_frames(zmq::socket_t& socket, std::vector<zmq::message_t>& frames);

/// The frames of the message that waits; empty where none does.
std::vector<zmq::message_t> receive_frames(zmq::socket_t& socket);

inline std::span<const std::byte> bytes_of(const zmq::message_t& frame) {
  return {static_cast<const std::byte*>(frame.data()), frame.size()};
}

}  // namespace isocost
