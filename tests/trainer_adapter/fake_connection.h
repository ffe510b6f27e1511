#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "transport/zmq/connection.h"

namespace isocost {

/// A connection without a socket or a thread: keeps what is sent, and leaves the handlers to the
/// test.
class FakeConnection final : public Connection {
 public:
  Status start(ConnectionHandlers started) override {
    handlers = std::move(started);
    if (on_start) on_start();
    return {};
  }
  void send(const Message& message) override { sent.push_back(message); }
  void stop() override { stops += 1; }
  void join_again() override { joins += 1; }
  void set_heartbeat(std::chrono::milliseconds interval) override { heartbeat = interval; }
  std::string why_unreached() const override { return why; }

  /// Returns the messages of one type that were sent since the last call, and forgets all others.
  template <typename Sent>
  std::vector<Sent> take() {
    std::vector<Sent> taken;
    for (const Message& message : std::exchange(sent, {})) {
      if (const auto* wanted = std::get_if<Sent>(&message)) taken.push_back(*wanted);
    }
    return taken;
  }

  std::function<void()> on_start;
  ConnectionHandlers handlers;
  std::vector<Message> sent;
  int stops = 0;
  int joins = 0;
  std::chrono::milliseconds heartbeat{0};
  std::string why;
};

}  // namespace isocost
