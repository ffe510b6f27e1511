#pragma once

#include <cstdint>
#include <span>

#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_selection.h"

namespace isocost {

/// Returns a hash of the shards' names, sizes and contents, of the tokenizer of their tokens, and
/// of the usable samples and their cuts; equal for equal data sets. `selections` has an element for
/// each shard.
std::uint64_t dataset_fingerprint(std::span<const Shard> shards,
                                  std::span<const ShardSelection> selections);

}  // namespace isocost
