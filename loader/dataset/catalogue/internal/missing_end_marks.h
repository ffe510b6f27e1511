#pragma once

#include <cstdint>

namespace isocost {

/// Decides whether the shards that lack the mark that ends a tar file are damaged. A tar that was
/// cut off between two members shows nothing else, and neither does one whose writer forgot the
/// mark. One such shard, or a few among many, cause a warning; at least two shards and at least 1 %
/// of a data set are what a copy that broke off leaves behind.
bool are_cut_off(std::uint64_t without_end_mark, std::uint64_t shards);

}  // namespace isocost
