#include "loader/dataset/internal/listed_source.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/utf8.h"
#include "loader/dataset/formats/directory_format.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/formats/tar_choice.h"

namespace isocost {
namespace {

// Returns the directory of a source's media, which is relative as its data are.
std::filesystem::path media_root_of(const DataSource& source) {
  if (source.reading.media_root.empty()) return {};
  return source.base / source.reading.media_root;
}

Error no_place_of_text(const ShardPlace& shard, std::string_view reason) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("text: it says where texts stand in tars, and {}: {}; leave it out",
                      printable_utf8(shard.name), reason)};
}

// Says of tars where the texts of their samples stand.
Status place_text(std::vector<ShardPlace>& shards,
                  const std::shared_ptr<const SampleFields>& fields) {
  std::map<std::shared_ptr<const SampleFields>, std::shared_ptr<const SampleFields>> with_text;
  for (ShardPlace& shard : shards) {
    if (shard.records) {
      return no_place_of_text(shard,
                              "the texts of records are found by their keys (docs/records.md)");
    }
    if (shard.mds) {
      return no_place_of_text(shard, "a column of MDS is a text by its name (docs/data.md)");
    }
    TarChoice choice = shard.tar ? *shard.tar : TarChoice();
    if (choice.fields && choice.fields->alone) {
      return no_place_of_text(shard, "the field_map of its dataset.yaml says it");
    }
    auto& placed = with_text[choice.fields];
    if (!placed) {
      auto both = std::make_shared<SampleFields>(*fields);
      if (choice.fields) both->parts = choice.fields->parts;
      placed = std::move(both);
    }
    choice.fields = placed;
    shard.tar = std::make_shared<const TarChoice>(std::move(choice));
  }
  return {};
}

Result<ListedSource> list(const DataSource& source, const DatasetOptions& options, Stores& stores) {
  ISOCOST_ASSIGN(SampleReading reading, SampleReading::create(source.reading));
  ISOCOST_ASSIGN(const DirectoryReading directories, DirectoryReading::create(source.reading));
  ListedSource listed;
  ISOCOST_ASSIGN(listed.listing, list_shards(source.data, options.index_dir, source.base,
                                             {.input = {.media_root = media_root_of(source),
                                                        .number_keys = source.reading.number_keys,
                                                        .ignored = reading.ignored,
                                                        .log = options.log},
                                              .progress = options.progress,
                                              .stop = options.stop},
                                             directories, &stores));
  if (reading.fields) ISOCOST_TRY(place_text(listed.listing.shards, reading.fields));
  for (const std::string& note : listed.listing.notes) log(options.log, LogLevel::kWarning, note);
  listed.reading = std::make_shared<const SourceReading>(
      SourceReading{source.name, std::move(reading), options.limits});
  return listed;
}

}  // namespace

StoreOptions store_options(const DatasetOptions& options) {
  StoreOptions stores = options.stores;
  if (!stores.log) stores.log = options.log;
  if (!stores.stop.stop_possible()) stores.stop = options.stop;
  return stores;
}

Result<ListedSource> list_source(const DataSource& source, const DatasetOptions& options,
                                 Stores& stores) {
  auto listed = list(source, options, stores);
  if (listed || source.name.empty()) return listed;
  return std::move(listed).error().with_context("source " + source.name);
}

}  // namespace isocost
