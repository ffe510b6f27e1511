#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/formats/sample_reading.h"

namespace isocost {

/// How the samples of a directory are found.
enum class DirectoryFormat : std::uint8_t {
  kShards,   ///< The shards in it (WebDataset); also where nothing else is recognised.
  kMds,      ///< Mosaic Streaming: an index.json names the shards.
  kEnergon,  ///< Energon: shards, and a folder .nv-meta that says how they are read.
  kRecords,  ///< Files of records, or files that are samples; never recognised beside shards.
};

/// Says how the directories of a data set are read, where that is said. Value type.
struct DirectoryReading {
  std::optional<DirectoryFormat> format = {};  ///< None: their files say it.
  std::string split = {};  ///< Empty: "train" of Energon, and none of the others.

  /// Errors: those of directory_format_from_name.
  static Result<DirectoryReading> create(const ReadingOptions& options);
};

/// Returns the format that a `format` setting names: "webdataset", "mds", "energon" or "records".
/// Errors: kInvalidArgument with the names that there are.
Result<DirectoryFormat> directory_format_from_name(std::string_view name);

/// Returns whether a directory has an index.json of Mosaic Streaming.
bool is_mds_directory(const std::filesystem::path& directory);

/// Decides by named files, `.nv-meta/.info.json`, `.nv-meta/.info.yaml` and `index.json`, how the
/// samples of a directory are found. `names` are the entries of the directory. Errors: kUnsupported
/// for the data sets of other loaders, which are named, with what to do instead; kIo.
Result<DirectoryFormat> recognise_directory(const std::filesystem::path& directory,
                                            std::span<const std::string> names);

}  // namespace isocost
