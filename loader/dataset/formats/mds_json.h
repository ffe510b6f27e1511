#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/formats/mds_columns.h"
#include "loader/dataset/formats/mds_shard.h"

namespace isocost {

/// Returns a sample's JSON: the object of the column "json" if there is one, and a member for each
/// column of MdsUse::kMember, by its name. `values` has the bytes of each column; those of others
/// are not read. Empty: the sample has no JSON. Errors: kCorrupt with the column.
Result<std::string> mds_json(std::span<const MdsColumn> columns,
                             std::span<const std::string_view> values);

/// Returns whether the columns give a sample JSON.
bool has_mds_json(std::span<const MdsColumn> columns);

/// Reads the values of a sample that belong to its JSON, and makes it. Errors: as above; kIo.
Result<std::string> read_mds_json(const ByteSource& source, std::span<const MdsColumn> columns,
                                  std::span<const MdsValue> values);

/// Makes the JSON of the sample that lies at `range` in a shard, by the columns that the shard
/// states. Errors: as above.
Result<std::string> make_mds_json(const ByteSource& shard, const MdsValue& range);

}  // namespace isocost
