#include "loader/internal/utf8.h"

#include <cstddef>
#include <cstdint>

namespace isocost {
namespace {

// Bytes of the well-formed character that `text` starts with; 0 where it starts with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (byte(0) == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (byte(0) == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (byte(0) == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (byte(0) == 0xF4 && byte(1) > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable_utf8(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const auto first = static_cast<std::uint8_t>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) {
      printable.push_back('?');
    } else {
      printable.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return printable;
}

}  // namespace isocost
