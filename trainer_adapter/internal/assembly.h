#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/units.h"
#include "trainer_adapter/client.h"
#include "transport/messages.h"

namespace isocost {

/// Memory of past microbatches that a client keeps for reuse: fresh pages cost more than the copy
/// into them.
inline constexpr std::int64_t kKeepBytes = kGiB;

/// A microbatch that is being received. Its tensors are allocated when it is announced, and each
/// piece of a fragment is copied to its place until every byte has arrived. Messages of the node
/// are checked as if they were hostile, and no byte is handed out that did not arrive.
/// Single-thread.
class Assembly {
 public:
  /// Allocates the announced tensors. Errors: kCorrupt (tensors that contradict each other or the
  /// schema, a name twice, more than `max_bytes`), kOutOfMemory.
  static Result<Assembly> begin(MicrobatchHeader header, BufferPool& pool, std::int64_t max_bytes);

  const Position& position() const { return header_.position; }

  /// Copies pieces of one sample's tensors to their places and returns the number of bytes copied.
  /// `frames[i]` holds the bytes of header.pieces[i]. A piece that arrives again is ignored.
  /// Errors: kCorrupt (other rows than announced, wrong sizes, a gap between pieces, an unknown
  /// tensor).
  Result<std::int64_t> add(const FragmentHeader& header,
                           std::span<const std::span<const std::byte>> frames);

  /// Returns the bytes of each announced tensor, which the caller fills instead of calling `add`.
  /// The microbatch then counts as complete.
  std::vector<std::span<std::byte>> expose_all();

  bool complete() const { return missing_bytes_ == 0; }
  /// Returns the microbatch, with the tensors that are computed here. To be called once, when
  /// complete(). Errors: kCorrupt if lengths do not add up to the rows.
  Result<Microbatch> finish(BufferPool& pool);

 private:
  struct Target {
    TensorSpec spec;
    Buffer buffer;
    std::int64_t row_bytes = 0;
    std::vector<std::int64_t> first_row;  // [samples + 1]: first row of each sample
    std::vector<std::int64_t> filled;     // [samples]: bytes received of each sample's rows
  };
  Assembly() = default;

  static Result<Target> place(const MicrobatchHeader& header, std::size_t tensor);
  Result<std::int64_t> add_piece(const FragmentPiece& piece, std::size_t sample,
                                 std::span<const std::byte> bytes);

  MicrobatchHeader header_;
  std::vector<Target> targets_;
  std::int64_t missing_bytes_ = 0;
};

}  // namespace isocost
