#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Returns bytes with %XX in place of everything but letters, digits and "-._~", as signatures of
/// AWS want it. `keep_slashes`: '/' stays, too.
std::string percent_encoded(std::string_view bytes, bool keep_slashes = false);

/// Returns the bytes that a text stands for, in which %XX is a byte and '+' a space. Errors:
/// kCorrupt for a '%' without two hexadecimal digits.
Result<std::string> percent_decoded(std::string_view text);

}  // namespace isocost
