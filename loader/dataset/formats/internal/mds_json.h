#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/formats/internal/mds_columns.h"

namespace isocost {

/// Returns a sample's JSON: the object of the column "json" if there is one, and a member for each
/// column of MdsUse::kMember, by its name. `values` has the bytes of each column; those of others
/// are not read. Empty: the sample has no JSON. Errors: kCorrupt with the column.
Result<std::string> mds_json(std::span<const MdsColumn> columns,
                             std::span<const std::string_view> values);

/// Returns whether the columns give a sample JSON.
bool has_mds_json(std::span<const MdsColumn> columns);

}  // namespace isocost
