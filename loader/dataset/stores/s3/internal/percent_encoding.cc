#include "loader/dataset/stores/s3/internal/percent_encoding.h"

#include <charconv>
#include <cstddef>

namespace isocost {
namespace {

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::string percent_encoded(std::string_view bytes, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (is_unreserved(c) || (keep_slashes && c == '/')) {
      text += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text += '%';
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      bytes += ' ';
    } else if (text[i] != '%') {
      bytes += text[i];
    } else {
      unsigned int byte = 0;
      const std::string_view digits = text.substr(i + 1, 2);
      const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16).ptr;
      if (digits.size() != 2 || end != digits.data() + 2) {
        return Error(ErrorCode::kCorrupt, "has a '%' without two hexadecimal digits");
      }
      bytes += static_cast<char>(byte);
      i += 2;
    }
  }
  return bytes;
}

}  // namespace isocost
