#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Returns the first 100 bytes of a text that stands in a file, for a message.
std::string shown_begin(std::string_view text);

}  // namespace isocost
