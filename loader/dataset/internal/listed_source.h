#pragma once

#include <memory>

#include "base/result.h"
#include "loader/dataset/catalogue/open_shards.h"
#include "loader/dataset/catalogue/shard_listing.h"
#include "loader/dataset/data_source.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// A source whose shards are listed.
struct ListedSource {
  std::shared_ptr<const SourceReading> reading;
  ShardListing listing;
};

/// Returns how servers are reached, with the log and the stop of the data set where they have none.
StoreOptions store_options(const DatasetOptions& options);

/// Lists the shards of a source. Errors: those of list_shards and SampleReading::create, with the
/// source's name.
Result<ListedSource> list_source(const DataSource& source, const DatasetOptions& options,
                                 Stores& stores);

}  // namespace isocost
