#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/shard_listing.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/index/index_file.h"

namespace isocost {

/// The shards that a data text names, with their indexes.
struct IndexedShards {
  ShardListing listing;
  std::vector<std::unique_ptr<const ShardIndex>> indexes;  ///< One for each of `listing.shards`.
};

/// Lists shards and opens their indexes, or builds those that are missing or stale. Errors: those
/// of list_shards, open_indexes and SampleReading::create.
Result<IndexedShards> index_shards(std::string_view data, const DatasetOptions& options);

}  // namespace isocost
