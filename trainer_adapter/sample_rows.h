#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transport/wire/messages.h"

namespace isocost {

/// The rows of one sample along the first dimension of a tensor.
struct SampleRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Returns the rows of a sample, an index into header.samples, in the tensor of this name, an
/// argument name as of docs/cpp.md. Throws isocost::Exception (kInvalidArgument) for a sample or a
/// tensor that the microbatch does not have, and for a tensor that does not have rows of samples:
/// running sums of lengths. Thread-safe.
SampleRows sample_rows(const MicrobatchHeader& header, std::string_view name, std::size_t sample);

}  // namespace isocost
