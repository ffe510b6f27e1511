#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "transport/protocol/log_line.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {

// Actions that a rank's machine asks of its owner. docs/protocol.md lists them with the events.

/// Sends a message to the node, behind those before it. Credit is void once hello is sent again.
struct SendMessage {
  Message message;
};

/// Sends hello again on the connection, if it is up: RankMachine::hello returns it then. A
/// connection that comes up needs no such request.
struct JoinAgain {};

/// Sets the time between heartbeats on the connection.
struct SetHeartbeat {
  std::chrono::milliseconds interval{0};
};

/// Leaves the shared memory of the last session.
struct LeaveMemory {};

/// Attaches to the node's shared memory, and tells RankMachine::attached the result at once: the
/// session begins with it.
struct AttachMemoryOffered {
  SharedMemoryOffer offer;
};

/// Begins to assemble the microbatch that was just announced.
struct BeginAssembly {
  Position position;
  bool has_block = false;  ///< Its tensors are in a block that was kept (BlockUse::kKeep).
};

/// Drops microbatches and blocks that are not handed over: they are not expected any more, or the
/// node sends them again.
struct DropIncomplete {};

/// Gives the loop an assembled microbatch, or an end of epoch, after all that was handed over.
struct HandOver {
  std::variant<Position, EpochEnd> next;
};

/// Ends what the loop receives with an error, after all that was handed over, and says where
/// training resumes, if the node said it.
struct Fail {
  Error error;
  std::optional<Position> resume_point = {};
};

/// Forgets the error of Fail: more is handed over.
struct Recover {};

/// Ends the wait for the node's answer to the first hello. Comes once.
struct Answer {
  Result<Welcome> answer;
};

/// Answers with RankMachine::tell_unreached why the last attempt to connect reached no node.
struct ExplainUnreached {};

using RankAction = std::variant<SendMessage, JoinAgain, SetHeartbeat, LeaveMemory,
                                AttachMemoryOffered, BeginAssembly, DropIncomplete, HandOver, Fail,
                                Recover, Answer, ExplainUnreached, LogLine>;

/// Actions in the order in which they are performed.
using RankActions = std::vector<RankAction>;

/// Says what becomes of a block that holds a microbatch.
enum class BlockUse : std::uint8_t {
  kAssemble,  ///< The microbatch is being assembled, and takes its tensors from the block.
  kKeep,      ///< It is not announced yet: BeginAssembly::has_block asks for the block.
  kRelease,   ///< It was received already, or is not expected.
};

}  // namespace isocost
