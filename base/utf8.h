#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace isocost {

/// Returns the length of the longest prefix that is well-formed UTF-8 (RFC 3629: no overlong forms,
/// no surrogates, nothing beyond U+10FFFF). A character that is truncated at the end is not part of
/// it.
std::size_t valid_utf8_prefix(std::span<const std::uint8_t> bytes);

bool is_utf8(std::string_view text);

/// Returns `text` with the letters A to Z in lower case and all other bytes as they are, whatever
/// the locale: for names of files and schemes.
std::string lower_ascii(std::string_view text);

/// Returns whether the text begins with `lower`, which is in lower case, in whatever case.
bool starts_with_ignoring_case(std::string_view text, std::string_view lower);

/// Returns `text` without a byte order mark before it.
std::string_view without_byte_order_mark(std::string_view text);

/// Returns `text` with '?' in place of every control character and every byte that is not part of
/// well-formed UTF-8, for messages and files that must stay readable.
std::string printable_utf8(std::string_view text);

}  // namespace isocost
