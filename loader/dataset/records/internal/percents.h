#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Returns a text with the escapes of URLs, such as "%20", decoded. A '%' without two hexadecimal
/// digits stays.
std::string decode_percents(std::string_view text);

}  // namespace isocost
