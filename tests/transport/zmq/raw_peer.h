#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "transport/wire/wire.h"
#include "transport/zmq/internal/job_key.h"

namespace isocost {

/// A client that says whatever a test wants said, over a socket of its own, and shows the job key
/// where the node has one. Every wait ends after 5 s.
class RawPeer {
 public:
  /// `linger`: for how long its end waits until what it said is sent.
  explicit RawPeer(const std::string& endpoint, std::chrono::milliseconds linger = {})
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, static_cast<int>(linger.count()));
    socket_.set(zmq::sockopt::rcvtimeo, 5000);
    if (const auto key = find_job_key(endpoint)) {
      socket_.set(zmq::sockopt::plain_username, "isocost");
      socket_.set(zmq::sockopt::plain_password, *key);
    }
    socket_.connect(endpoint);
  }

  void send(const Message& message) { send_bytes(encode(message)); }
  void send_bytes(const std::vector<std::byte>& bytes) {
    socket_.send(zmq::message_t(bytes.data(), bytes.size()), zmq::send_flags::none);
  }

  /// The next message that is not a heartbeat, its further frames dropped; nothing if none comes.
  std::optional<Message> receive() {
    for (;;) {
      zmq::message_t first;
      if (!socket_.recv(first)) return std::nullopt;
      for (bool more = first.more(); more;) {
        zmq::message_t rest;
        static_cast<void>(socket_.recv(rest));
        more = rest.more();
      }
      auto message = decode({static_cast<const std::byte*>(first.data()), first.size()});
      if (!message) return std::nullopt;
      if (!std::holds_alternative<Heartbeat>(*message)) return *std::move(message);
    }
  }

  template <typename T>
  std::optional<T> receive_as() {
    const auto message = receive();
    if (!message || !std::holds_alternative<T>(*message)) return std::nullopt;
    return std::get<T>(*message);
  }

  /// Says hello as `rank` and takes the welcome.
  bool join(std::int32_t rank, std::uint8_t client_id) {
    Hello hello;
    hello.rank = rank;
    hello.client_id.fill(client_id);
    send(hello);
    const auto welcome = receive_as<Welcome>();
    if (welcome) session_ = welcome->session;
    return welcome.has_value();
  }
  std::uint64_t session() const { return session_; }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::uint64_t session_ = 0;
};

}  // namespace isocost
