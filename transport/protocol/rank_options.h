#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "transport/wire/messages.h"

namespace isocost {

/// Settings of a rank's machine. trainer_adapter/client.h describes the fields that
/// ClientOptions has, too.
struct RankOptions {
  std::string endpoint;  ///< The node's, for messages.
  std::int32_t rank = 0;
  std::int32_t world_size = 0;
  std::uint64_t layout = 0;
  std::uint32_t prefetch = 2;
  bool prepares_ahead = false;
  /// Steps that the loop may use after it last said what is trained. A loop that says nothing for
  /// longer has trained, for the node, what it asks past.
  std::uint32_t most_steps_ahead = 8;
  std::array<std::uint8_t, 16> client_id{};  ///< Hello::client_id.
  std::optional<StartPoint> start = {};
  bool accept_other_data = false;
  std::string hardware = {};
  std::chrono::milliseconds connect_timeout{30000};  ///< For messages; the owner keeps to it.
};

}  // namespace isocost
