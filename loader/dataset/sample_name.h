#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Returns "shard/key" for messages and lists, with '?' for what is not printable. A key is unique
/// within its shard only.
std::string sample_name(std::string_view shard, std::string_view key);

}  // namespace isocost
