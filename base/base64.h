#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Returns bytes in base64 (RFC 4648), padded, without line breaks.
std::string encode_base64(std::string_view bytes);

/// Decodes base64 (RFC 4648) in its own alphabet or that of URLs, with or without padding, and with
/// spaces and line breaks anywhere. Errors: kCorrupt with the first character that is wrong, or
/// where a digit is missing at the end, as a predicate: "is no base64: ...".
Result<std::string> decode_base64(std::string_view text);

}  // namespace isocost
