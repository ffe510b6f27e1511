#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/shard_listing.h"
#include "loader/dataset/data_source.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/index/index_file.h"

namespace isocost {

/// The shards of a source, with their indexes.
struct IndexedShards {
  ShardListing listing;
  std::vector<std::unique_ptr<const ShardIndex>> indexes;  ///< One for each of `listing.shards`.
};

/// Lists shards and opens their indexes, or builds those that are missing or stale, by the source's
/// reading and the other options. Errors: those of list_shards, open_indexes and
/// SampleReading::create, with the source's name.
Result<IndexedShards> index_shards(const DataSource& source, const DatasetOptions& options);

}  // namespace isocost
