#include "base/utf8.h"

#include <cstring>

namespace isocost {
namespace {

using Bytes = std::span<const std::uint8_t>;

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

bool in(std::uint8_t byte, std::uint8_t least, std::uint8_t most) {
  return byte >= least && byte <= most;
}

// Returns the bytes of the character at the front of `rest`, 0 if there is none; RFC 3629, section
// 4.
std::size_t character_bytes(Bytes rest) {
  const std::uint8_t lead = rest[0];
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  if (in(lead, 0xC2, 0xDF)) length = 2;
  if (in(lead, 0xE0, 0xEF)) length = 3;
  if (in(lead, 0xF0, 0xF4)) length = 4;
  if (length == 0 || rest.size() < length) return 0;
  const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!in(rest[1], least, most)) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (!in(rest[i], 0x80, 0xBF)) return 0;
  }
  return length;
}

// Returns whether a character that terminals take as a command begins here: U+0000 to U+001F,
// U+007F to U+009F.
bool is_control(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  if (first == 0xC2) return static_cast<std::uint8_t>(text[1]) < 0xA0;
  return first < 0x20 || first == 0x7F;
}

}  // namespace

std::size_t valid_utf8_prefix(Bytes bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
    std::uint64_t word = 0;
    while (bytes.size() - at >= sizeof word) {
      std::memcpy(&word, bytes.data() + at, sizeof word);
      if ((word & kHighBits) != 0) break;
      at += sizeof word;
    }
    if (at == bytes.size()) break;
    const std::size_t length = character_bytes(bytes.subspan(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

bool is_utf8(std::string_view text) { return valid_utf8_prefix(bytes_of(text)) == text.size(); }

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string printable_utf8(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_bytes(bytes_of(text));
    if (length == 0 || is_control(text)) {
      printable.push_back('?');
    } else {
      printable.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return printable;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  return lower_ascii(text.substr(0, lower.size())) == lower;
}

}  // namespace isocost
