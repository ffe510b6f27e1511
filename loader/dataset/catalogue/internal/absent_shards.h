#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "loader/dataset/catalogue/broken_shard.h"

namespace isocost {

/// Returns how many samples a shard had when it was whole, by its index in one of `directories`; 0:
/// no index says.
std::uint64_t samples_when_whole(std::span<const std::filesystem::path> directories,
                                 const std::string& shard);

/// Returns the shards that have an index in one of `directories` and no entry in `names`, in the
/// order of their names. Left out are those that never had a sample.
std::vector<BrokenShard> absent_shards(std::span<const std::filesystem::path> directories,
                                       const std::set<std::string>& names);

}  // namespace isocost
