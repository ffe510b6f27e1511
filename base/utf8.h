#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace isocost {

/// Bytes before the first that is no UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing
/// beyond U+10FFFF); all where there is none. A character cut off at the end counts as none.
std::size_t valid_utf8_prefix(std::span<const std::uint8_t> bytes);

bool is_utf8(std::string_view text);

/// `text` with every byte that is not part of well-formed UTF-8, and every control character,
/// replaced by '?': for messages and files that must stay readable.
std::string printable_utf8(std::string_view text);

}  // namespace isocost
