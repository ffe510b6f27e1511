#include "loader/dataset/internal/indexed_shards.h"

#include <filesystem>
#include <string>
#include <utility>

#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/open_indexes.h"

namespace isocost {

namespace {

// Returns the directory of a source's media, which is relative as its data are.
std::filesystem::path media_root_of(const DataSource& source) {
  if (source.reading.media_root.empty()) return {};
  return source.base / source.reading.media_root;
}

Result<IndexedShards> index(const DataSource& source, const DatasetOptions& options) {
  ISOCOST_ASSIGN(SampleReading reading, SampleReading::create(source.reading));
  IndexedShards indexed;
  ISOCOST_ASSIGN(indexed.listing, list_shards(source.data, options.index_dir, source.base,
                                              {.input = {.media_root = media_root_of(source),
                                                         .number_keys = source.reading.number_keys,
                                                         .ignored = reading.ignored,
                                                         .log = options.log},
                                               .progress = options.progress,
                                               .stop = options.stop}));
  for (const std::string& note : indexed.listing.notes) log(options.log, LogLevel::kWarning, note);
  ISOCOST_ASSIGN(indexed.indexes,
                 open_indexes(indexed.listing.shards, {.limits = options.limits,
                                                       .reading = std::move(reading),
                                                       .workers = options.workers,
                                                       .progress = options.progress,
                                                       .log = options.log,
                                                       .stop = options.stop}));
  for (const ShardPlace& shard : indexed.listing.shards) {
    if (shard.records) shard.records->let_go();
  }
  return indexed;
}

}  // namespace

Result<IndexedShards> index_shards(const DataSource& source, const DatasetOptions& options) {
  auto indexed = index(source, options);
  if (indexed || source.name.empty()) return indexed;
  return std::move(indexed).error().with_context("source " + source.name);
}

}  // namespace isocost
