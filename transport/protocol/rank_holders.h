#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/wire/messages.h"

namespace isocost {

/// Which client holds which rank, and when it was last heard. A state machine without socket and
/// clock: its owner says who sent something and when, and whose connection is closed.
/// Single-thread.
class RankHolders {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Notes that a message came from `address`. Returns the rank that its client holds; empty if it
  /// holds none.
  std::optional<std::int32_t> heard(const std::string& address, Time now);

  /// Returns the rank that the client at `address` holds; empty if it holds none.
  std::optional<std::int32_t> rank_of(const std::string& address) const;
  /// Returns the address of the client that holds the rank, null if none does. The pointer is valid
  /// until the next call that changes the holder.
  const std::string* address_of(std::int32_t rank) const;
  /// Returns the number of the rank's last join; 0 if it was never joined.
  std::uint64_t session_of(std::int32_t rank) const;
  /// Returns the ranks that a client holds with their clients' addresses, by rank.
  std::vector<std::pair<std::int32_t, std::string>> all() const;

  /// Returns whether the last client that held the rank is the one that says hello.
  bool is_same_client(const Hello& hello) const;
  /// Returns whether a client that says hello has to wait for another one, which holds its rank.
  bool is_held_by_another(const Hello& hello) const;
  /// Returns a rank that another client holds than the one that says hello; empty if there is none.
  std::optional<std::int32_t> held_by_another(const Hello& hello) const;
  /// Notes that a client asks for a rank that another one holds. Returns whether the holder has
  /// sent something since it was first asked for, and is thus alive.
  bool challenge(std::int32_t rank, Time now);

  /// Gives the rank to the client at `address`, which must hold no other. Returns the number of
  /// this join, never 0 and never used again.
  std::uint64_t join(const std::string& address, const Hello& hello, Time now);
  /// Takes the rank from its client, which is still known when it comes back.
  void leave(std::int32_t rank);

  /// Returns whether the rank's client has sent nothing for longer than `timeout`.
  bool is_silent(std::int32_t rank, Time now, std::chrono::nanoseconds timeout) const;

 private:
  struct Holder {
    std::string address;  // ZeroMQ's routing id; empty: no client holds the rank
    std::array<std::uint8_t, 16> id{};
    std::uint64_t session = 0;
    Time heard;
    std::optional<Time> challenged;  // when another client first asked for the rank
  };

  std::map<std::int32_t, Holder> holders_;
  std::unordered_map<std::string, std::int32_t> ranks_;  // by address, of clients that hold one
  std::uint64_t sessions_ = 0;
};

}  // namespace isocost
