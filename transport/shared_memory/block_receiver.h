#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A client's half of delivery by shared memory: maps each block that the node passes once, and
/// tells the node when one may be filled again. Checks what the node says as if it were hostile.
/// Single-thread; the owner of a block may be released on any thread, also after this object is
/// gone.
class BlockReceiver {
 public:
  /// Connects to the node, for the session that the offer belongs to. Never blocks. Errors:
  /// kNotFound if the node is on another host, or in a container with a network of its own;
  /// kUnsupported if it runs as another user; kUnavailable if a later try may succeed, with what
  /// the system says.
  static Result<std::unique_ptr<BlockReceiver>> attach(const SharedMemoryOffer& offer);
  virtual ~BlockReceiver() = default;

  /// A microbatch whose samples have all arrived. The node does not write to the block while
  /// `owner` lives, and never reads it, so this process may write to it.
  /// After a fork, parent and child share the bytes.
  struct Delivered {
    Position position;
    std::vector<std::int64_t> offsets;  ///< MicrobatchInBlock::offsets, not checked.
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
    /// Registers the block with CUDA, once: see Microbatch::pin of trainer_adapter/client.h.
    /// Thread-safe. Errors: kNotFound if this process does not use CUDA, or the tensors are gone;
    /// kUnsupported if no CUDA runtime is found; kUnavailable if the runtime refuses.
    std::function<Status()> pin;
  };
  /// Returns the next microbatch, or nothing if none is among the next few packets; unmaps blocks
  /// that the node has dropped, and repeats what the node did not take at once. Never blocks, and
  /// costs the same whatever the size. `descriptor` stays readable while packets are left. Errors:
  /// kUnavailable if the node has closed the connection, or this process can map no more; kCorrupt.
  virtual Result<std::optional<Delivered>> receive() = 0;

  /// Returns a descriptor that is readable when `receive` has something to do.
  virtual int descriptor() const = 0;
};

}  // namespace isocost
