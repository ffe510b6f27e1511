#pragma once

#include <cstdint>
#include <span>

#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_selection.h"

namespace isocost {

/// Returns a hash of the version of reading and, for each shard, of its name, size, content, choice
/// of what is read, tokenizer, and the number, keys and cuts of its usable samples; equal for equal
/// data sets. Where the shards lie adds nothing, and neither does the name of their source.
/// `selections` has an element for each shard.
std::uint64_t dataset_fingerprint(std::span<const Shard> shards,
                                  std::span<const ShardSelection> selections);

}  // namespace isocost
