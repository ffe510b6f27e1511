#include "loader/dataset/shard_writing/internal/base64.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::uint8_t kNone = 0xFF;

constexpr std::array<std::uint8_t, 256> make_digits() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(kNone);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    digits.at(static_cast<unsigned char>(kAlphabet[i])) = static_cast<std::uint8_t>(i);
  }
  digits['-'] = digits['+'];
  digits['_'] = digits['/'];
  return digits;
}

constexpr std::array<std::uint8_t, 256> kDigitOf = make_digits();

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

Error wrong(std::string_view what) {
  return {ErrorCode::kCorrupt, "is no base64: " + std::string(what)};
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_space(c)) continue;
    const std::uint8_t digit = kDigitOf.at(static_cast<unsigned char>(c));
    if (c == '=' ? ++padding > 2 || digits % 4 < 2 : digit == kNone || padding > 0) {
      return wrong("'" + printable_utf8(std::string_view(&c, 1)) + "' is character " +
                   std::to_string(i + 1));
    }
    if (c == '=') continue;
    bits = bits << 6 | digit;
    // The first digit of four completes no byte, and each of the next three completes one.
    if (++digits % 4 != 1) bytes += static_cast<char>(bits >> (6 - 2 * ((digits - 1) % 4)));
  }
  if (digits % 4 == 1 || (padding > 0 && (digits + padding) % 4 != 0)) {
    return wrong("its " + std::to_string(digits) + " digits are cut off");
  }
  return bytes;
}

std::string decode_percents(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint8_t byte = 0;
    const std::string_view two = text.substr(i + 1, 2);
    const char* const first = two.data();
    const char* const end = first + two.size();
    const bool is_escape =
        text[i] == '%' && two.size() == 2 && std::from_chars(first, end, byte, 16).ptr == end;
    decoded += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

}  // namespace isocost
