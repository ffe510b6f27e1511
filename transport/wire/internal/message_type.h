#pragma once

#include <cstdint>

namespace isocost {

/// The type of a message, its third field. Types below 64 go from client to node, the others from
/// node to client. Both sides send heartbeats.
enum class MessageType : std::uint8_t {
  kHello = 1,
  kCredit = 2,
  kAcknowledgement = 3,
  kReport = 4,
  kHeartbeat = 5,
  kLeave = 6,
  kProfileUpdate = 7,
  kAttachMemory = 8,
  kReleaseBlocks = 9,
  kWelcome = 64,
  kRefusal = 65,
  kMicrobatch = 66,
  kFragment = 67,
  kEpochEnd = 68,
  kFailure = 69,
  kNotice = 70,
  kMicrobatchInBlock = 71,
  kPassBlock = 72,
  kDropBlock = 73,
};

}  // namespace isocost
