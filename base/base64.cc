#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 0xFF;

constexpr std::array<std::uint8_t, 256> make_digits() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(kNone);
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

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<std::uint8_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kAlphabet[bits >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return text;
}

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

}  // namespace isocost
