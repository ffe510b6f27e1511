#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "transport/wire/messages.h"

namespace isocost {

// Events of clients, for the node that serves them.

struct ClientJoined {
  std::int32_t rank = 0;
  bool same_client = false;          ///< Whether the client that had this rank has reconnected.
  std::optional<Position> received;  ///< The last microbatch that is complete at the client.
  std::uint64_t session = 0;         ///< Number of this join, never 0 and never used again.
};
struct ClientLeft {
  std::int32_t rank = 0;
  bool finished = false;  ///< Whether it sent a leave message; otherwise it is considered lost.
};
/// A client that was considered lost for its silence says something: it is about to join again.
struct ClientHeard {
  std::int32_t rank = 0;
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
  ProfileUpdate update;  ///< Not parsed yet.
};
using ClientEvent = std::variant<ClientJoined, ClientLeft, ClientHeard, CreditGranted, Acknowledged,
                                 Reported, ProfileReceived>;

}  // namespace isocost
