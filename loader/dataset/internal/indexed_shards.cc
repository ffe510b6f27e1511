#include "loader/dataset/internal/indexed_shards.h"

#include <utility>

#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/open_indexes.h"

namespace isocost {

Result<IndexedShards> index_shards(std::string_view data, const DatasetOptions& options) {
  ISOCOST_ASSIGN(SampleReading reading, SampleReading::create(options.reading));
  IndexedShards indexed;
  ISOCOST_ASSIGN(indexed.listing, list_shards(data, options.index_dir));
  ISOCOST_ASSIGN(indexed.indexes,
                 open_indexes(indexed.listing.shards, {.limits = options.limits,
                                                       .reading = std::move(reading),
                                                       .workers = options.workers,
                                                       .progress = options.progress,
                                                       .log = options.log,
                                                       .stop = options.stop}));
  return indexed;
}

}  // namespace isocost
