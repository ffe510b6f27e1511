#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "transport/wire/wire.h"

namespace isocost {

struct ConnectionOptions {
  std::string endpoint;
  std::string curve_server_key_file;  ///< The node's public key; empty: no CURVE.
  std::string curve_secret_key_file;  ///< The client's key pair; empty: a fresh one.
  /// Most bytes of a frame. A node that sends a larger one is disconnected for good, before the
  /// frame is stored, and on_tick then reports growing silence.
  std::int64_t max_frame_bytes = kMaxMessageBytes;
};

/// Callbacks of a connection's owner. All are called on the connection's thread and must not block.
struct ConnectionHandlers {
  /// Returns the hello to send. Called when the connection comes up, for the first time or again,
  /// and after `join_again`.
  std::function<Hello()> hello;
  /// Receives a message. `frames` are those that follow the first, valid during the call.
  std::function<void(Message message, std::span<const std::span<const std::byte>> frames)>
      on_message;
  /// Receives the reason why a message could not be read.
  std::function<void(Error error)> on_error;
  /// Receives the time since the last message of the node, at least every 100 ms. Time in which
  /// this process did not run does not count.
  std::function<void(std::chrono::nanoseconds silence)> on_tick;
  /// Returns a further descriptor to wait for, or -1.
  std::function<int()> descriptor;
  /// Called when that descriptor is readable.
  std::function<void()> on_readable;
};

/// A client's socket on a thread of its own. It connects, reconnects, sends a hello each time, and
/// sends heartbeats. Thread-safe.
class Connection {
 public:
  /// Connects the socket and returns at once; the node may start later. Errors: kInvalidArgument
  /// for an invalid endpoint or key file.
  static Result<std::unique_ptr<Connection>> open(const ConnectionOptions& options);
  virtual ~Connection() = default;  ///< Calls stop().

  /// Starts the thread, which calls `handlers` until `stop` has returned, and returns at once. Call
  /// it once. Errors: kUnavailable if the system has no thread.
  virtual Status start(ConnectionHandlers handlers) = 0;
  /// Queues a message and returns at once. While the connection is down, and after `stop`, messages
  /// wait and may never be sent; credit is dropped.
  virtual void send(const Message& message) = 0;
  /// Waits up to 200 ms for queued messages to leave, and joins the thread. Idempotent. May be
  /// called from any thread except the connection's own.
  virtual void stop() = 0;
  /// Sends hello again, to begin another session on the same connection. While it is down, nothing
  /// is sent but the hello of its coming up. Returns at once.
  virtual void join_again() = 0;
  /// Sets the time between heartbeats, which comes with the node's welcome.
  virtual void set_heartbeat(std::chrono::milliseconds interval) = 0;
  /// Returns a sentence that says why no node was reached at the last try: nobody listens there,
  /// what listens is no node, or the host is unknown. Empty before the first try has failed, and
  /// while the connection is up.
  virtual std::string why_unreached() const = 0;
};

}  // namespace isocost
