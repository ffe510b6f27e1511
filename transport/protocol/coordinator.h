#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "transport/protocol/client_events.h"
#include "transport/protocol/join_request.h"
#include "transport/protocol/log_line.h"
#include "transport/protocol/rank_holders.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {

struct CoordinatorOptions {
  std::uint64_t node_id = 0;               ///< See Welcome::node_id.
  std::chrono::milliseconds heartbeat{0};  ///< The time between two calls of Coordinator::tick.
  std::chrono::milliseconds heartbeat_timeout{0};
  std::function<std::string(std::int32_t rank)> rank_name;  ///< For messages.
};

// Actions that a coordinator asks of its owner, which performs them in their order.

/// Sends a message to the client at an address.
struct SendToClient {
  std::string address;
  Message message;
};

/// Sends a welcome. The owner adds its offer of shared memory to a rank's.
struct WelcomeClient {
  std::string address;
  std::int32_t rank = kNoRank;
  Welcome welcome;
};

/// Refuses the client at an address, which holds no rank. The owner may limit such answers.
struct RefuseClient {
  std::string address;
  Refusal refusal;
};

/// A ClientEvent tells the node what a client has said, or that it is gone.
using CoordinatorAction =
    std::variant<ClientEvent, SendToClient, WelcomeClient, RefuseClient, LogLine>;
using CoordinatorActions = std::vector<CoordinatorAction>;

/// Decides which client holds which rank, without a socket, a clock, a lock or a thread. Which job
/// a client joins is the node's decision, which `answer` brings. Addresses name connections: a
/// client that reconnects has another one. A connection's messages come in their order, and its end
/// behind them. docs/protocol.md has the states, events and time-outs. Times are of one monotonic
/// clock. Single-thread.
class Coordinator {
 public:
  using Time = RankHolders::Time;

  explicit Coordinator(CoordinatorOptions options) : options_(std::move(options)) {}

  // Events. Each appends actions.

  /// Returns the address of a client on which the answer to a hello depends: the one that holds the
  /// rank, or any other. Null: there is none. Its owner looks whether the connection is up, says
  /// `close` if it is gone, and asks again. Once one is up, the hello can be answered.
  const std::string* depends_on(const Hello& hello) const;
  /// Returns what is to be decided about a hello. It refers to the hello.
  JoinRequest request(const Hello& hello, Time now);
  /// Answers a hello that came from `address`, with what the node has decided.
  void answer(const std::string& address, const JoinRequest& request,
              tl::expected<Welcome, Refusal> decision, Time now, CoordinatorActions& actions);
  /// Another message came. Those from an address that holds no rank are dropped: their client says
  /// hello again, and repeats its last acknowledgement. A client that was considered lost for its
  /// silence may have no more to say than that it has trained and leaves: this still counts, until
  /// another client joins.
  void receive(const std::string& address, const Message& message, Time now,
               CoordinatorActions& actions);
  /// The connection is gone, and all that came over it was received.
  void close(const std::string& address, CoordinatorActions& actions);
  /// A heartbeat interval has passed. `now` does not count time in which the process did not run.
  void tick(Time now, CoordinatorActions& actions);

  // State.

  /// Returns the address of the client that holds the rank; null if none does, or if its session is
  /// not `session` (0: any).
  const std::string* address_of(std::int32_t rank, std::uint64_t session) const;
  /// Returns the ranks that a client holds with their clients' addresses, by rank.
  std::vector<std::pair<std::int32_t, std::string>> all() const { return holders_.all(); }

 private:
  void let_in(const std::string& address, const JoinRequest& request, Welcome welcome, Time now,
              CoordinatorActions& actions);
  void leave(std::int32_t rank, bool finished, CoordinatorActions& actions);
  void lose_silent(std::int32_t rank, const std::string& address, CoordinatorActions& actions);
  void receive_late(const std::string& address, const Message& message,
                    CoordinatorActions& actions);

  const CoordinatorOptions options_;
  RankHolders holders_;
  std::map<std::string, std::int32_t> silent_;  // ranks of clients that were silent, by address
};

}  // namespace isocost
