#pragma once

#include <span>
#include <string>
#include <string_view>

namespace isocost {

/// Returns the known key that a mistyped one means, by up to two letters that are wrong, missing or
/// too many; "" if none is so near.
std::string nearest_key(std::string_view key, std::span<const std::string_view> known);

}  // namespace isocost
