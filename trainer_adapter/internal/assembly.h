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

/// A microbatch under way: its tensors are allocated when it is announced, each fragment is copied
/// to its rows, and when all have come it is whole. What the node says is checked as if it were
/// hostile. Single-thread.
class Assembly {
 public:
  /// Errors: kCorrupt (tensors that contradict each other, or more than `max_bytes`).
  static Result<Assembly> begin(MicrobatchHeader header, BufferPool& pool, std::int64_t max_bytes);

  const Position& position() const { return header_.position; }

  /// Copies one sample's tensors in; `frames[i]` are the bytes of header.tensors[i]. A sample that
  /// came already is ignored. Returns the bytes copied. Errors: kCorrupt (rows that do not fit,
  /// wrong sizes, an unknown tensor).
  Result<std::int64_t> add(const FragmentHeader& header,
                           std::span<const std::span<const std::byte>> frames);

  bool whole() const { return missing_ == 0; }
  /// The finished microbatch with its derived tensors; only where whole(). Errors: kCorrupt where
  /// lengths do not add up to the rows.
  Result<Microbatch> finish(BufferPool& pool);

 private:
  struct Target {
    TensorSpec spec;
    Buffer buffer;
    std::int64_t row_bytes = 0;
    std::vector<std::int64_t> offsets;  // [samples + 1]: first row of each sample
  };
  Assembly() = default;

  MicrobatchHeader header_;
  std::vector<Target> targets_;
  std::vector<bool> present_;
  std::size_t missing_ = 0;
};

}  // namespace isocost
