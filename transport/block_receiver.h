#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "transport/messages.h"

namespace isocost {

/// A client's half of delivery by shared memory: maps the blocks that the node passes, once each,
/// and tells the node when one may be filled again. What the node says is checked as if it were
/// hostile. Single-thread; what `take` returns may be released on any thread, also after this
/// object is gone.
class BlockReceiver {
 public:
  /// Connects to the node, for the session that the offer is of. Never blocks. Errors: kUnavailable
  /// with the reason: the node is on another host, in a container with a network of its own, or of
  /// another user.
  static Result<std::unique_ptr<BlockReceiver>> attach(const SharedMemoryOffer& offer);
  virtual ~BlockReceiver() = default;

  /// Bytes that the node has filled. They do not change while `owner` lives; what this process
  /// writes to them is its own, and gone with `owner`. After a fork they are the parent's alone.
  struct Block {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  /// Returns the block of this number; never blocks, and costs the same whatever its size. Errors:
  /// kCorrupt if the node has not passed it, or it is in use; kUnavailable if this process can map
  /// no more, or the node has closed the connection.
  virtual Result<Block> take(std::uint64_t number) = 0;

  /// To be called now and then: unmaps blocks that the node has dropped, and repeats what the node
  /// did not take at once. Errors: kUnavailable if the node has closed the connection, kCorrupt.
  virtual Status keep_up() = 0;
};

}  // namespace isocost
