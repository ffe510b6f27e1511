#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Offsets of each sample's rows in a tensor of a microbatch.
struct RowOffsets {
  std::int64_t row_bytes = 0;
  std::vector<std::int64_t>
      first_row;  ///< [samples + 1]: first row of each sample, then the number of all rows.

  std::int64_t bytes() const { return first_row.back() * row_bytes; }
};

/// Returns the offsets in the tensor at an index of the header. Pure. Errors: kCorrupt if the
/// samples' rows are not those of the tensor, or its size is impossible.
Result<RowOffsets> row_offsets(const MicrobatchHeader& header, std::size_t tensor);

/// Returns whether a tensor of `dtype` and `shape` is a sample's part of `whole` with `rows` rows.
bool is_part_of(const TensorSpec& whole, DType dtype, const std::vector<std::int64_t>& shape,
                std::int64_t rows);

}  // namespace isocost
