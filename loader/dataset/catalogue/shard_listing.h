#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/broken_shard.h"
#include "loader/dataset/formats/directory_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/index/record_listing.h"

namespace isocost {

class Stores;

/// The shards of a data set.
struct ShardListing {
  /// In the order of the entries of the data text; those of a directory or a pattern by name. No
  /// two have one name.
  std::vector<ShardPlace> shards;
  /// Lost shards: those that are named and no files, and those that are absent while their index is
  /// there.
  std::vector<BrokenShard> lost;
  /// Archives of other formats, and directories below that hold shards, with what is to be done:
  /// "name: reason".
  std::vector<std::string> unread;
  /// Warnings about directories that another loader would read in another way.
  std::vector<std::string> notes;
};

/// Lists the shards that a data text names (see resolve_names), and their indexes (see shard_root).
/// The text is relative to `base`; addresses in it are those of `stores` (null: they are refused).
/// A file of records and a directory of files without shards have shards of 10,000 samples each:
/// `records` says how they are read. Errors: those of resolve_names, recognise_directory,
/// open_mds_data_set, open_energon_data_set and list_record_shards; kNotFound (a directory or a
/// pattern without a shard, present or lost); kInvalidArgument (two shards of one name, one shard
/// named twice, a split or a format that what is named has not); kIo; those of
/// StoredObjects::stamp_all but for objects that are absent, which are lost shards.
Result<ShardListing> list_shards(std::string_view data, const std::filesystem::path& index_dir,
                                 const std::filesystem::path& base = {},
                                 const RecordListingOptions& records = {},
                                 const DirectoryReading& directories = {},
                                 Stores* stores = nullptr);

}  // namespace isocost
