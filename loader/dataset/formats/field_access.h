#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// The place of a field in a sample: a part ("jpg"), or a value within a JSON part
/// ("json[caption][0]").
struct FieldAccess {
  std::string part;
  std::vector<std::string> keys;  ///< Names of members, or numbers of items; empty: the part.

  bool operator==(const FieldAccess&) const = default;
};

/// Reads alternatives with commas between, of which the first that a sample has counts:
/// "jpg,png", "json[a][b],txt". As in Energon, anything that has not this form is the name of a
/// part, in which case it stands alone. Errors: kInvalidArgument for an empty text.
Result<std::vector<FieldAccess>> parse_field_access(std::string_view text);

/// Returns the text of parse_field_access.
std::string field_access_text(const std::vector<FieldAccess>& options);

}  // namespace isocost
