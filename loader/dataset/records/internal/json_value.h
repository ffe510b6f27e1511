#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

inline constexpr std::size_t kMaxJsonMembers = 4096;  ///< Limit of one object of parse_json_value.

/// Parses JSON as Python's json module writes it (decode/bytes/json_reader.h); NaN and Infinity
/// become numbers that are not finite. The last of several members with one name counts. Errors:
/// those of read_json; kCorrupt for an object of more than kMaxJsonMembers members, since they are
/// searched one by one.
Result<nlohmann::ordered_json> parse_json_value(std::string_view text, std::size_t max_depth);

/// Returns the JSON text of a value, as Python's json module reads it.
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace isocost
