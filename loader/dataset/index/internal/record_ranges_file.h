#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/dataset/records/record_range.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// Returns the text of a file that keeps how a file of records is divided (docs/index_format.md).
std::string encode_record_ranges(const FileStamp& stamp, const std::vector<RecordRange>& ranges);

/// Reads such a text. Returns nothing for another text, and for that of another stamp.
std::optional<std::vector<RecordRange>> decode_record_ranges(const std::string& text,
                                                             const FileStamp& stamp);

}  // namespace isocost
