#include "loader/dataset/internal/indexed_shards.h"

#include <string>
#include <utility>

#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/open_indexes.h"

namespace isocost {

namespace {

Result<IndexedShards> index(const DataSource& source, const DatasetOptions& options) {
  ISOCOST_ASSIGN(SampleReading reading, SampleReading::create(source.reading));
  IndexedShards indexed;
  ISOCOST_ASSIGN(indexed.listing, list_shards(source.data, options.index_dir, source.base));
  for (const std::string& note : indexed.listing.notes) log(options.log, LogLevel::kWarning, note);
  ISOCOST_ASSIGN(indexed.indexes,
                 open_indexes(indexed.listing.shards, {.limits = options.limits,
                                                       .reading = std::move(reading),
                                                       .workers = options.workers,
                                                       .progress = options.progress,
                                                       .log = options.log,
                                                       .stop = options.stop}));
  return indexed;
}

}  // namespace

Result<IndexedShards> index_shards(const DataSource& source, const DatasetOptions& options) {
  auto indexed = index(source, options);
  if (indexed || source.name.empty()) return indexed;
  return std::move(indexed).error().with_context("source " + source.name);
}

}  // namespace isocost
