#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "transport/messages.h"

namespace isocost {

/// A microbatch under way: its tensors are allocated when it is announced, each piece of a fragment
/// is copied to its place, and when every byte has come it is whole. What the node says is checked
/// as if it were hostile; no byte is handed out that did not come. Single-thread.
class Assembly {
 public:
  /// Errors: kCorrupt (tensors that contradict each other, a name twice or one that is derived
  /// here, more than `max_bytes`), kResourceExhausted.
  static Result<Assembly> begin(MicrobatchHeader header, BufferPool& pool, std::int64_t max_bytes);

  const Position& position() const { return header_.position; }

  /// Copies pieces of one sample's tensors in; `frames[i]` are the bytes of header.pieces[i]. A
  /// piece that came already is ignored. Returns the bytes copied. Errors: kCorrupt (rows that do
  /// not fit, wrong sizes, a gap between pieces, an unknown tensor).
  Result<std::int64_t> add(const FragmentHeader& header,
                           std::span<const std::span<const std::byte>> frames);

  /// In place of `add`: the bytes of each announced tensor, for the caller to fill. Then it is
  /// whole.
  std::vector<std::span<std::byte>> take_whole();

  bool whole() const { return missing_bytes_ == 0; }
  /// The finished microbatch with its derived tensors; only where whole(). Errors: kCorrupt where
  /// lengths do not add up to the rows.
  Result<Microbatch> finish(BufferPool& pool);

 private:
  struct Target {
    TensorSpec spec;
    Buffer buffer;
    std::int64_t row_bytes = 0;
    std::vector<std::int64_t> first_row;  // [samples + 1]: first row of each sample
    std::vector<std::int64_t> filled;     // [samples]: bytes that came of each sample's rows
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
