#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Decodes base64 (RFC 4648) in its own alphabet or that of URLs, with or without padding, and with
/// spaces and line breaks anywhere. Errors: kCorrupt with the first character that is wrong, or
/// where a digit is missing at the end, as a predicate: "is no base64: ...".
Result<std::string> decode_base64(std::string_view text);

/// Returns a text with the escapes of URLs, such as "%20", decoded. A '%' without two hexadecimal
/// digits stays.
std::string decode_percents(std::string_view text);

}  // namespace isocost
