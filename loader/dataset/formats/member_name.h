#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isocost {

/// A member's name, split by the WebDataset convention: the key is the path up to the first
/// dot of the base name, the part name follows that dot ("a/b.0.png": "a/b" and "0.png"). Views of
/// the name.
struct MemberName {
  std::string_view key;
  std::string_view part;
};
MemberName split_member_name(std::string_view name);

/// Returns whether WebDataset skips a member of this name as metadata: its first component begins
/// and ends with two underscores, as in "__meta__" and "__info__/a.json".
bool is_metadata_member(std::string_view name);

/// Returns whether one of the path's components is "..".
bool has_parent_component(std::string_view name);

/// Returns why a member of this name is refused, or nothing. These are refused: absolute
/// paths, a leading "./" (which a reader of shards removes, so that the key would be another), ".."
/// components, names that is_metadata_member tells, control characters, text that is not UTF-8,
/// names without key or part, names beyond 4096 bytes.
std::optional<std::string> refuse_member_name(std::string_view name);

/// Returns why no member can be this part of the sample with this key, or nothing.
std::optional<std::string> refuse_member(std::string_view key, std::string_view part);

}  // namespace isocost
