#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace isocost {

/// Fields of ClientOptions for a process of a layout, under the names that they have there.
struct LayoutReceiver {
  std::uint64_t layout = 0;     ///< The layout's fingerprint.
  std::int32_t rank = 0;        ///< Number of the receiver, which a tensor-parallel group shares.
  std::int32_t world_size = 0;  ///< Number of receivers.
};

/// Reads a layout, as `isocost plan` writes it, and returns its fingerprint: equal for equal
/// layouts, also in Python and from `isocost layout fingerprint`. Errors: kNotFound, kIo, kCorrupt,
/// kUnsupported and kInvalidArgument, with the file's name.
Result<std::uint64_t> layout_fingerprint(const std::filesystem::path& file);

/// Reads a layout and returns what the process of this rank in the whole job tells its node. Errors
/// as above; kInvalidArgument for a rank that the layout does not have.
Result<LayoutReceiver> layout_receiver(const std::filesystem::path& file, std::int64_t rank);

}  // namespace isocost
