#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// Returns the SHA-256 of bytes, as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
/// Returns the HMAC-SHA-256 of a message, as 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);
/// Returns bytes as hexadecimal digits, in lower case.
std::string hex_digits(std::string_view bytes);

}  // namespace isocost
