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
#include "transport/messages.h"

namespace isocost {

struct ServerOptions {
  std::string bind = "tcp://127.0.0.1:5800";  ///< ZeroMQ endpoint; port * picks a free one.
  bool insecure = false;              ///< Allows an address beyond loopback without CURVE keys.
  std::string curve_secret_key_file;  ///< `isocost keygen` writes it; empty: no CURVE.
  std::string curve_allowed_clients_file;  ///< Public keys of clients, one a line; empty: any that
                                           ///< knows ours.
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds timeout{30000};  ///< A silent client is given up after this.
  /// What messages call a rank; empty: "rank 3".
  std::function<std::string(std::int32_t rank)> name = {};
};

/// A client asks to join.
struct JoinRequest {
  const Hello& hello;
  bool same_client;  ///< Holds the rank already: a reconnect.
  /// Why the rank is not free: another client holds it. kAlreadyExists where that one is known to
  /// live, kUnavailable (ask again) until it has answered or is given up.
  std::function<std::optional<Refusal>()> taken;
  std::function<bool()> alone;  ///< Whether no other client is alive. Costs a message to each.
};

/// Who may join, and as what, is the owner's to say; that a rank is held by one live client only is
/// seen to by the server. Node id, heartbeat and time-out of the welcome are filled in there.
using Admission = std::function<tl::expected<Welcome, Refusal>(const JoinRequest& request)>;

/// Why a client cannot be one of `ranks`: its number is out of range, or its world size another
/// one.
std::optional<Refusal> check_rank(const Hello& hello, std::int32_t ranks);

/// Lets in ranks 0 to welcome.ranks - 1 of a job of as many.
Admission admit_ranks(const Welcome& welcome);

/// What clients do, as the server's owner sees it.
struct ClientJoined {
  std::int32_t rank = 0;
  bool same_client = false;          ///< A reconnect of the client that had this rank.
  std::optional<Position> received;  ///< Last microbatch that it holds whole.
  std::uint64_t session = 0;         ///< Of this join, never 0 and never the same again.
};
struct ClientLeft {
  std::int32_t rank = 0;
  bool finished = false;  ///< It said goodbye; else it fell silent.
};
struct CreditGranted {
  std::int32_t rank = 0;
  std::uint32_t microbatches = 0;
};
struct Acknowledged {
  std::int32_t rank = 0;
  Position position;
};
struct Reported {
  std::int32_t rank = 0;
  Report report;
};
struct ProfileReceived {
  std::int32_t rank = 0;
  std::string profile;  ///< As ProfileUpdate has it: nobody has read it yet.
};
using ServerEvent =
    std::variant<ClientJoined, ClientLeft, CreditGranted, Acknowledged, Reported, ProfileReceived>;

/// The node's socket: lets in one client a rank, keeps heartbeats, carries microbatches. It owns
/// one thread. Another protocol version, a rank that another client holds, or whom `admit` refuses
/// is answered with a refusal that says why. A client is alive while its connection
/// stands and it is not silent for the time-out. A client that reconnects must join again, and its
/// credit starts anew. Internally synchronised.
class Server {
 public:
  /// `admit` and `on_event` are called on the server's thread; they must not block, and may call
  /// the send functions. Errors: kAlreadyExists for a busy port, kInvalidArgument for a bad
  /// endpoint, an address beyond loopback without keys, or unreadable keys.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options, Admission admit,
                                                std::function<void(const ServerEvent&)> on_event,
                                                LogSink log);
  /// Gives what is queued a second to leave, lets go of every `keep`, joins.
  virtual ~Server() = default;

  /// The endpoint that clients connect to, the port filled in.
  virtual const std::string& endpoint() const = 0;

  /// These queue a message and return; the tensors are sent without a copy and `keep` is released
  /// once ZeroMQ has no use for them (on any thread). Sending to a rank without a client drops the
  /// message. `session` is that of the ClientJoined on which the decision to send rests: where the
  /// rank has been joined anew since, the message is dropped, too, for the new client is served
  /// from another position, and one microbatch too early would make it take those before for
  /// received. 0 sends to whoever holds the rank, and leaves that order to the caller.
  virtual void begin(std::int32_t rank, const MicrobatchHeader& header,
                     std::uint64_t session = 0) = 0;
  virtual void fragment(std::int32_t rank, Fragment fragment, std::shared_ptr<const void> keep,
                        std::uint64_t session = 0) = 0;
  virtual void epoch_end(std::int32_t rank, const EpochEnd& end, std::uint64_t session = 0) = 0;
  /// Tells a client that it will get nothing more, and why; it keeps the rank until it leaves.
  virtual void refuse(std::int32_t rank, const Refusal& refusal, std::uint64_t session = 0) = 0;
  /// Tells every client why the node stops, and those that join later.
  virtual void fail(const Error& error) = 0;
};

/// Whether a server could be made with these options, as far as that can be told without one: what
/// is there, but an address that somebody else has. Errors: those of Server::create.
Status check_server(const ServerOptions& options);

}  // namespace isocost
