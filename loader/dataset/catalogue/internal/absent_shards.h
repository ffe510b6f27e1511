#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loader/dataset/catalogue/broken_shard.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/names/named_files.h"

namespace isocost {

/// Returns how many samples a shard had when it was whole, by its index; 0: no index says.
std::uint64_t samples_when_whole(const ShardRoot& root, const std::string& shard);

/// Returns the shards that an entry means and that have an index and are not listed, by name. Left
/// out are those that never had a sample.
std::vector<BrokenShard> absent_shards(
    const NamedFiles& entry, const ShardRoot& root,
    const std::function<bool(const std::string& name)>& is_listed);

}  // namespace isocost
