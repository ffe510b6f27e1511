#pragma once

#include <deque>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace isocost {

/// The messages that came to a ROUTER socket, in the order in which the socket gives them: that of
/// each connection, but not across connections. Single-thread.
class Inbox {
 public:
  using Frames = std::vector<zmq::message_t>;

  /// `socket` must outlive it.
  explicit Inbox(zmq::socket_t& socket) : socket_(socket) {}

  /// Returns the frames of the next message, beginning with its address; none: no message has come.
  Frames next();
  /// Returns whether messages were read ahead, which no longer make the socket readable.
  bool has_unread() const { return !unread_.empty(); }
  /// Takes the messages that came from an address and were not returned yet. With its connection
  /// gone, these are its last ones.
  std::vector<Frames> take_of(const std::string& address);

 private:
  zmq::socket_t& socket_;
  std::deque<Frames> unread_;  // received, and not returned yet
};

}  // namespace isocost
