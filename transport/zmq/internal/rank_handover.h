#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "transport/wire/messages.h"
#include "transport/wire/wire.h"
#include "transport/zmq/internal/rank_holders.h"

namespace isocost {

/// Hands a rank from one client to the next. The rank is free once its client's connection is gone,
/// or once that client is silent after another one has asked for the rank. What the client had sent
/// before it left counts first: its last acknowledgement says where the next client continues,
/// though the next one's hello may have overtaken it. Single-thread.
class RankHandover {
 public:
  struct Context {
    /// Reads the next message from the socket; no frames: there is none.
    std::function<std::vector<zmq::message_t>()> receive;
    /// Sends a heartbeat. Returns false if the connection with that address is gone.
    std::function<bool(const std::string& address)> is_connected;
    /// Takes a message of the client that holds the rank.
    std::function<void(std::int32_t rank, const Message& message)> take;
    /// Called when a rank's client has left without a message.
    std::function<void(std::int32_t rank)> lost;
    /// Returns the name of a rank for messages.
    std::function<std::string(std::int32_t rank)> rank_name;
  };
  /// `holders` must outlive this object.
  RankHandover(RankHolders& holders, Context context);

  /// Returns the frames of the next message: one that was read ahead, else one from the socket.
  std::vector<zmq::message_t> next_frames();
  /// Returns whether messages were read ahead, which no longer make the socket readable.
  bool has_unread() const { return !unread_.empty(); }

  /// Returns a refusal while another client holds the rank: kAlreadyExists if that one is alive,
  /// kUnavailable (ask again) until it has answered or is considered lost.
  std::optional<Refusal> check_rank_is_free(const Hello& hello);
  /// Returns whether no client holds the rank, or its connection is gone: the rank of a killed
  /// trainer is then free at once, without waiting for the time-out.
  bool has_left(std::int32_t rank);
  /// Returns whether no client but the one that says hello is connected.
  bool is_only_client(const Hello& hello);

 private:
  void take_unread(const std::string& address);

  RankHolders& holders_;
  const Context context_;
  std::deque<std::vector<zmq::message_t>> unread_;  // received, and not handled yet
};

}  // namespace isocost
