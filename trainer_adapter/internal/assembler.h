#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/internal/assembly.h"
#include "trainer_adapter/internal/pin_failures.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Assembles microbatches from what the node sends, in whatever order their parts arrive. The
/// rank's machine says which are begun and dropped, and in which order they are handed over.
/// Single-thread, except where a function says otherwise.
class Assembler {
 public:
  /// A microbatch whose parts have all arrived.
  struct Assembled {
    Position position;
    Result<Microbatch> microbatch;  ///< Or the error of its lengths: see Assembly::finish.
  };

  /// `pool` holds tensors that are copied or computed here.
  Assembler(const ClientOptions& options, BufferPool& pool);

  /// Begins a microbatch; `has_block` if `keep` has its block. Returns it if it is complete at
  /// once, because all of its tensors are empty or in the block. Errors: those of Assembly.
  Result<std::optional<Assembled>> begin(MicrobatchHeader header, bool has_block);
  /// Adds a fragment, whose bytes are in `frames`, and returns the microbatch that it completes.
  /// Ignores those of other microbatches than were begun: they were sent before a reconnect.
  /// Errors: those of Assembly.
  Result<std::optional<Assembled>> add(const FragmentHeader& header,
                                       std::span<const std::span<const std::byte>> frames);
  /// Completes a microbatch that was begun with its block. Errors: those of Assembly.
  Result<std::optional<Assembled>> add(const BlockReceiver::Delivered& block);
  /// Keeps a block whose microbatch will be begun.
  void keep(BlockReceiver::Delivered block);
  /// Drops what is incomplete, and what was kept.
  void drop();

  /// Returns, once, why blocks cannot be registered with CUDA. Thread-safe.
  std::optional<std::string> take_pin_failure() { return pin_failures_.take(); }
  /// Returns the bytes copied into tensors so far. Thread-safe.
  std::int64_t bytes_copied() const { return bytes_copied_; }
  /// Returns the bytes of blocks that tensors hold. Thread-safe.
  std::int64_t block_bytes_in_use() const { return *block_bytes_in_use_; }

 private:
  using Incomplete = std::map<Position, Assembly>;

  Status use_block(Assembly& assembly, const BlockReceiver::Delivered& block);
  std::shared_ptr<const void> count_bytes(std::span<const std::byte> block,
                                          std::shared_ptr<const void> owner) const;
  std::optional<Assembled> finish_complete(Incomplete::iterator at);

  const std::int64_t max_microbatch_bytes_;
  BufferPool& pool_;
  PinFailures pin_failures_;
  Incomplete incomplete_;
  std::map<Position, BlockReceiver::Delivered> early_blocks_;  // arrived before their headers
  std::atomic<std::int64_t> bytes_copied_ = 0;
  // Shared with the tensors in blocks, which may outlive the client.
  const std::shared_ptr<std::atomic<std::int64_t>> block_bytes_in_use_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace isocost
