#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/log.h"
#include "base/result.h"
#include "transport/protocol/client_events.h"
#include "transport/protocol/join_request.h"
#include "transport/wire/messages.h"

namespace isocost {

struct ServerOptions {
  std::string bind = "tcp://127.0.0.1:5800";  ///< ZeroMQ endpoint; port * picks a free one.
  /// Lets clients in without any key. Otherwise a node that listens on tcp://LOOPBACK without CURVE
  /// writes a job key, which clients of the same user find by themselves, and addresses beyond
  /// loopback need CURVE keys.
  bool insecure = false;
  std::string curve_key;      ///< File with the node's secret key; empty: no CURVE.
  std::string curve_clients;  ///< File with the public keys of admitted clients, one per line;
                              ///< empty: every client that has the node's public key.
  /// Threads that move the sockets' bytes, at least 1. Each connection is served by one of them.
  int io_threads = 1;
  std::chrono::milliseconds heartbeat{1000};
  /// Time without a message after which a client is considered lost.
  std::chrono::milliseconds heartbeat_timeout{30000};
  /// Returns the name of a rank for messages; called from any thread. Empty: "rank 3".
  std::function<std::string(std::int32_t rank)> rank_name = {};
  /// Reserves memory for a block of shared memory, in which a client on this host receives a
  /// microbatch. Returns an object that holds the reservation until it is dropped, on any thread;
  /// null if there is no memory now, and the microbatch then goes over the socket. Called by
  /// `begin`, on its thread; must not block. Empty: no memory is shared.
  std::function<std::shared_ptr<const void>(std::int64_t bytes)> reserve_block = {};
};

/// Decides who may join, and with which welcome. What clients had sent whose connection is closed,
/// and that they left, was reported before. The server itself ensures that one live client holds a
/// rank, and fills in the welcome's node id, session, heartbeat and time-out.
using Admission = std::function<tl::expected<Welcome, Refusal>(const JoinRequest& request)>;

/// The node's socket on a thread of its own: admits one client per rank, sends and expects
/// heartbeats, and sends microbatches. A client is refused, with the reason, if it uses another
/// protocol version, if another client holds its rank, or if `admit` refuses it. A client counts as
/// alive while its connection is up and the heartbeat time-out has not passed since its last
/// message. A client that reconnects must join again, and begins without credit. Clients on this
/// host may receive microbatches in shared memory. Thread-safe.
class Server {
 public:
  /// Binds and starts the thread. `admit` and `on_event` are called on that thread; they must not
  /// block, and may call the functions that send. Errors: kAlreadyExists for an address that is in
  /// use; kInvalidArgument for an invalid endpoint, an address beyond loopback without keys, or
  /// unreadable keys.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options, Admission admit,
                                                std::function<void(const ClientEvent&)> on_event,
                                                LogSink log);
  /// Waits up to a second for queued messages to leave, releases every `keep` and joins the thread.
  virtual ~Server() = default;

  /// Returns the endpoint that clients connect to, with the port filled in.
  virtual const std::string& endpoint() const = 0;

  /// Announces a microbatch. This function and those below queue a message and return at once.
  /// Tensors are sent without a copy; `keep` is released on any thread when ZeroMQ no longer needs
  /// them. If `begin` has found a block of shared memory for a microbatch, `fragment` copies its
  /// tensors into the block instead. A message to a rank without a client is dropped. `session` is
  /// ClientJoined::session of the join that the decision to send is based on: if the rank has been
  /// joined again since, the message is dropped, because the new client is served from another
  /// position, and a microbatch sent too early would make it skip the ones before. 0 sends to
  /// whichever client holds the rank; the caller then ensures that order.
  virtual void begin(std::int32_t rank, const MicrobatchHeader& header,
                     std::uint64_t session = 0) = 0;
  virtual void fragment(std::int32_t rank, Fragment fragment, std::shared_ptr<const void> keep,
                        std::uint64_t session = 0) = 0;
  virtual void epoch_end(std::int32_t rank, const EpochEnd& end, std::uint64_t session = 0) = 0;
  /// Tells a client that nothing more will be sent, and why. It keeps the rank until it leaves.
  virtual void refuse(std::int32_t rank, const Refusal& refusal, std::uint64_t session = 0) = 0;
  /// Passes a message on to the rank's client.
  virtual void notify(std::int32_t rank, const Notice& notice, std::uint64_t session = 0) = 0;
  /// Passes a message on to every client.
  virtual void notify_all(const Notice& notice) = 0;
  /// Tells every client, including those that join later, why the node stops, and where training
  /// can resume if that is known: at the first step that is not delivered.
  virtual void fail(const Error& error, const std::optional<Position>& resume_point = {}) = 0;

  /// Returns the time since the thread last looked at its sockets, which it does at least once a
  /// heartbeat: a longer time means that it hangs.
  virtual std::chrono::nanoseconds since_last_turn() const = 0;
  /// Returns the number of microbatches that went in shared memory.
  virtual std::uint64_t microbatches_shared() const = 0;
};

/// Checks whether a server can be created with these options, without binding the address. Errors:
/// those of Server::create, except for an address that another program uses.
Status check_server(const ServerOptions& options);

}  // namespace isocost
