#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/wire/messages.h"

namespace isocost {

/// A client's hello, with what is known about the rank it asks for.
struct JoinRequest {
  const Hello& hello;
  bool same_client = false;  ///< Whether the client holds the rank already and has reconnected.
  bool alone = false;        ///< Whether no other client holds a rank.
  /// A refusal if another client holds the rank: kAlreadyExists if that one is known to be alive,
  /// kUnavailable (ask again) until it has answered or is considered lost.
  std::optional<Refusal> rank_taken = {};
};

/// Returns a client's name for people: "rank 3", or "a client" if it has no rank.
std::string client_name(const Hello& hello);

/// Returns a refusal if a client cannot be one of `ranks`: its number is out of range, or it
/// expects another world size.
std::optional<Refusal> check_rank(const Hello& hello, std::int32_t ranks);

}  // namespace isocost
