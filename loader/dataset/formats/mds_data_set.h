#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/mds_index.h"

namespace isocost {

/// A shard of an MDS data set, and the file in which it lies: raw or compressed.
struct MdsStoredShard {
  MdsShard shard;
  std::shared_ptr<const std::vector<MdsColumn>> columns;
  std::string name;  ///< The path of the stored file below the directory of the index.
  bool is_zip = false;

  /// Returns a hash of what the index states of the shard.
  std::uint64_t origin() const;
};

/// Reads the index.json of a directory. A shard whose raw file is there is read from it, else from
/// the compressed one. Errors: those of parse_mds_index, with the file; kUnsupported for a shard
/// that lies there only in a compression that is not read; kIo.
Result<std::vector<std::shared_ptr<const MdsStoredShard>>> open_mds_data_set(
    const std::filesystem::path& directory);

}  // namespace isocost
