#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "transport/wire.h"

namespace isocost {

struct ConnectionOptions {
  std::string endpoint;
  std::string curve_server_key_file;  ///< The node's public key; empty: no CURVE.
  std::string curve_secret_key_file;  ///< Ours; empty: a fresh pair.
  std::int64_t max_frame_bytes = -1;  ///< A peer that sends larger ones is cut off; -1: no limit.
};

/// What a connection's owner does; each is called on the connection's thread and must not block.
struct ConnectionHandlers {
  /// The greeting for a connection that has just come up, for the first time or again, or on which
  /// nothing came for two heartbeats: the node may have given us up without our noticing.
  std::function<Hello()> hello;
  /// A message from the node; `frames` are those that follow the first, valid during the call.
  std::function<void(Message message, std::span<const std::span<const std::byte>> frames)>
      on_message;
  /// What came could not be read.
  std::function<void(Error error)> on_error;
  /// Now and then, with the time since anything came from the node.
  std::function<void(std::chrono::nanoseconds silence)> on_tick;
};

/// A client's socket on a thread of its own: connects, reconnects, greets each time, keeps
/// heartbeats. Internally synchronised.
class Connection {
 public:
  /// Returns at once; the node may come up later. Errors: kInvalidArgument for a bad endpoint or
  /// key file.
  static Result<std::unique_ptr<Connection>> open(const ConnectionOptions& options,
                                                  ConnectionHandlers handlers);
  virtual ~Connection() = default;  ///< As stop().

  /// After `stop`, or while the connection is down, what is sent waits and may never leave.
  virtual void send(const Message& message) = 0;
  /// Gives what was sent 200 ms to leave, and joins. Idempotent; from any thread but the
  /// connection's own.
  virtual void stop() = 0;
  /// How often heartbeats leave; the node says so in its welcome.
  virtual void set_heartbeat(std::chrono::milliseconds interval) = 0;
};

}  // namespace isocost
