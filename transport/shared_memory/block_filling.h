#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/wire/messages.h"
#include "transport/wire/row_offsets.h"

namespace isocost {

/// Offsets of a microbatch's tensors in a block of memory, in which they follow each other.
struct BlockLayout {
  static constexpr std::int64_t kAlignment = 64;

  struct Tensor {
    TensorSpec spec;
    RowOffsets rows;
    std::int64_t offset = 0;  ///< A multiple of kAlignment.
  };
  std::vector<Tensor> tensors;  ///< The header's tensors, in their order.
  std::int64_t bytes = 0;

  /// Computes the layout. Pure. Errors: those of row_offsets.
  static Result<BlockLayout> of(const MicrobatchHeader& header);
  std::vector<std::int64_t> offsets() const;
};

/// Copies the rows of a microbatch's samples to their places in a block. `add` may be called from
/// several threads.
class BlockFilling {
 public:
  /// `bytes` must have room for the layout and outlive this object.
  BlockFilling(BlockLayout layout, std::size_t samples, std::span<std::byte> bytes);

  enum class Progress { kRefused, kAdded, kComplete };
  /// Copies the rows of one sample. A sample that comes again is not copied. Returns kComplete to
  /// exactly one call, when all rows of all samples are there; kRefused, without having copied
  /// anything, if the tensors are not those that the header announced.
  Progress add(const Fragment& fragment);

  const BlockLayout& layout() const { return layout_; }

 private:
  std::optional<std::size_t> find(const NamedTensor& named, std::size_t sample) const;

  const BlockLayout layout_;
  const std::span<std::byte> bytes_;
  std::vector<std::atomic<bool>> added_;  // [samples]
  std::atomic<std::int64_t> missing_bytes_ = 0;
};

}  // namespace isocost
