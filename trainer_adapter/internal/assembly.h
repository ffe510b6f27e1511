#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/units.h"
#include "trainer_adapter/client.h"
#include "transport/wire/messages.h"
#include "transport/wire/row_offsets.h"

namespace isocost {

/// Memory of past microbatches that a client keeps for reuse, at most: fresh pages cost more than
/// the copy into them.
inline constexpr std::int64_t kKeepBytes = kGiB;

/// A microbatch that is being received. Either each piece of a fragment is copied to its place in
/// memory of its own until every byte has arrived, or its tensors lie in a block of shared memory
/// and are not copied. Messages of the node are checked as if they were hostile, and no byte is
/// handed out that did not arrive. Single-thread.
class Assembly {
 public:
  /// Starts a microbatch. `pool` must outlive the assembly. Errors: kCorrupt (tensors that
  /// contradict each other or the schema, a name twice), kResourceExhausted (more than
  /// `max_bytes`).
  static Result<Assembly> begin(MicrobatchHeader header, BufferPool& pool, std::int64_t max_bytes);

  const Position& position() const { return header_.position; }

  /// Copies pieces of one sample's tensors to their places and returns the number of bytes copied.
  /// `frames[i]` holds the bytes of header.pieces[i]. A piece that arrives again is ignored.
  /// The first call allocates the tensors. Errors: kCorrupt (other rows than announced, wrong
  /// sizes, a gap between pieces, an unknown tensor), kOutOfMemory.
  Result<std::int64_t> add(const FragmentHeader& header,
                           std::span<const std::span<const std::byte>> frames);

  /// Returns the bytes of each announced tensor, which the caller fills instead of calling `add`.
  /// The microbatch then counts as complete. Errors: kOutOfMemory.
  Result<std::vector<std::span<std::byte>>> expose_all();

  /// Takes the announced tensors from a block, which `owner` keeps alive, without a copy;
  /// `offsets[i]` is the offset of header.tensors[i], and `pin` becomes Microbatch::pin. The
  /// microbatch then counts as complete. Errors: kCorrupt for a tensor beyond the block or not
  /// aligned, or a microbatch that has received fragments.
  Status use_block(std::span<const std::byte> block, const std::shared_ptr<const void>& owner,
                   std::span<const std::int64_t> offsets, std::function<bool()> pin = {});

  bool complete() const { return missing_bytes_ == 0; }
  /// Returns the microbatch, with the tensors that are computed here. Call it once, when
  /// complete(). Errors: kCorrupt if lengths do not add up to the rows, kOutOfMemory.
  Result<Microbatch> finish();

 private:
  struct Target {
    TensorSpec spec;
    RowOffsets rows;
    std::vector<std::int64_t> filled;  // [samples]: bytes received of each sample's rows
    Buffer buffer;                     // holds tensors that are copied
    SharedTensor in_block;             // holds tensors that are not copied
  };
  explicit Assembly(BufferPool& pool) : pool_(&pool) {}

  Status allocate();
  Result<SharedTensor> take(Target& target) const;
  Result<std::int64_t> add_piece(const FragmentPiece& piece, std::size_t sample,
                                 std::span<const std::byte> bytes);

  enum class Memory { kNone, kOwn, kBlock };

  BufferPool* pool_;
  MicrobatchHeader header_;
  std::vector<Target> targets_;
  Memory memory_ = Memory::kNone;
  std::function<bool()> pin_;
  std::int64_t bytes_ = 0;  // total of all announced tensors
  std::int64_t missing_bytes_ = 0;
};

}  // namespace isocost
