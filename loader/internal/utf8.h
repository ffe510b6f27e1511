#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Well-formed UTF-8: no overlong forms, surrogates or values beyond U+10FFFF.
bool is_utf8(std::string_view text);

/// `text` with every byte that is not part of well-formed UTF-8, and every control character,
/// replaced by '?': for messages and files that must stay readable.
std::string printable_utf8(std::string_view text);

}  // namespace isocost
