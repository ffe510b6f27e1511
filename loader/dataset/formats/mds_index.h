#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/file_hash.h"
#include "loader/dataset/formats/mds_columns.h"

namespace isocost {

/// A file of an MDS data set, as the index states it.
struct MdsFile {
  std::string path;  ///< Below the directory of the index; may hold '/'.
  std::int64_t bytes = 0;
  std::vector<StatedHash> hashes;
};

struct MdsShard {
  MdsFile raw;
  std::optional<MdsFile> zip;  ///< The compressed file of the same bytes.
  std::string compression;     ///< "zstd", "gz", ...; empty: none. Without its level.
  std::int64_t samples = 0;
  std::size_t columns = 0;  ///< Which of MdsIndex::columns its values have.
};

/// Returns whether files of this compression are read.
bool is_mds_compression(std::string_view compression);

/// The shards of an MDS data set.
struct MdsIndex {
  std::vector<std::vector<MdsColumn>> columns;  ///< Each list once; their names are sorted.
  std::vector<MdsShard> shards;
};

/// Reads the description of its columns that a shard holds. Errors: as below.
Result<std::vector<MdsColumn>> parse_mds_columns(std::string_view text);

/// Reads the index.json of Mosaic Streaming's format MDS, version 2. Errors: kCorrupt for text that
/// is no such index, kUnsupported for another version or format and for columns, compressions and
/// hashes that are not read; they name the shard, what is wrong and what to do.
Result<MdsIndex> parse_mds_index(std::string_view text);

}  // namespace isocost
