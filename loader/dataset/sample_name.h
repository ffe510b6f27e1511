#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Returns a name of a shard, key or part for messages and lists: with "\xE9" for a byte that is no
/// UTF-8, so that names stay apart, and '?' for a control character. A name that would be longer
/// than 4 KiB has '?' for both.
std::string printable_name(std::string_view name);

/// Returns "shard/key" in the form of printable_name. A key is unique within its shard only.
std::string sample_name(std::string_view shard, std::string_view key);

}  // namespace isocost
