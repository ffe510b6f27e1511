#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/buffer.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/internal/assembly.h"
#include "trainer_adapter/internal/hand_out.h"
#include "trainer_adapter/internal/pin_failures.h"
#include "transport/shared_memory/block_receiver.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Assembles microbatches from what the node sends, in whatever order their parts arrive, and hands
/// each over once, in the order in which the node announced them. After an error the caller calls
/// HandOut::fail. Single-thread, except where a function says otherwise.
class ReassemblyQueue {
 public:
  /// `pool` holds tensors that are copied or computed here; `hand_out` receives complete
  /// microbatches.
  ReassemblyQueue(const ClientOptions& options, BufferPool& pool, HandOut& hand_out);

  /// Returns the last position that was handed over, after which the node continues.
  const std::optional<Position>& received() const { return received_; }
  /// Drops what is incomplete, because the node sends it again in a new session.
  void restart();

  /// Announces a microbatch. One that was received already only returns its credit. Errors: those
  /// of Assembly, and kCorrupt for one without credit.
  Status add(MicrobatchHeader header);
  /// Adds a fragment, whose bytes are in `frames`. Ignores those of microbatches that are not
  /// announced, which were sent before a reconnect. Errors: those of Assembly.
  Status add(const FragmentHeader& header, std::span<const std::span<const std::byte>> frames);
  /// Adds a microbatch in a block. Its header comes over the socket, and may come later. Errors:
  /// those of Assembly, and kCorrupt for one without credit.
  Status add(BlockReceiver::Delivered block);
  /// Adds an end of epoch. One that comes again is ignored. Errors: kCorrupt for too many.
  Status add(const EpochEnd& end);

  /// Returns, once, why blocks cannot be registered with CUDA. Thread-safe.
  std::optional<std::string> take_pin_failure() { return pin_failures_.take(); }
  /// Returns the bytes copied into tensors so far. Thread-safe.
  std::int64_t bytes_copied() const { return bytes_copied_; }
  /// Returns the bytes of blocks that tensors hold. Thread-safe.
  std::int64_t block_bytes_in_use() const { return *block_bytes_in_use_; }

 private:
  bool is_received(const Position& position) const;
  Assembly* find(const Position& position);
  std::uint32_t count_assemblies() const;
  Status use_block(Assembly& assembly, const BlockReceiver::Delivered& block);
  std::shared_ptr<const void> count_bytes(std::span<const std::byte> block,
                                          std::shared_ptr<const void> owner) const;
  Status hand_over_complete();
  void hand_over(Microbatch microbatch);
  void hand_over(const EpochEnd& end);

  const std::int64_t max_microbatch_bytes_;
  BufferPool& pool_;
  HandOut& hand_out_;
  PinFailures pin_failures_;
  // Announced and not handed over yet, in order. Fragments of several microbatches may arrive
  // interleaved, and an end of epoch before the last fragment.
  std::deque<std::variant<Assembly, EpochEnd>> pending_;
  std::map<Position, BlockReceiver::Delivered> early_blocks_;  // arrived before their headers
  std::optional<Position> received_;
  std::optional<std::uint32_t> last_epoch_end_;
  std::atomic<std::int64_t> bytes_copied_ = 0;
  // Shared with the tensors in blocks, which may outlive the client.
  const std::shared_ptr<std::atomic<std::int64_t>> block_bytes_in_use_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace isocost
