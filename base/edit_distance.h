#pragma once

#include <cstddef>
#include <string_view>

namespace isocost {

/// Returns the number of bytes that must be replaced, added or removed to turn one text into the
/// other. Takes time in proportion to the product of their sizes.
std::size_t edit_distance(std::string_view from, std::string_view to);

}  // namespace isocost
