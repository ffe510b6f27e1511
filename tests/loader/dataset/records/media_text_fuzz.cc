// For any text: base64 decodes to bytes that encode to its digits again, or is refused; a text with
// escapes of URLs decodes to one that is no longer; and a medium in a record has an extension of
// media, or is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/records/internal/embedded_medium.h"
#include "loader/dataset/records/internal/percents.h"

namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string encode(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  int waiting = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (waiting += 8; waiting >= 6; waiting -= 6) text += kAlphabet[bits >> (waiting - 6) & 63];
  }
  if (waiting > 0) text += kAlphabet[bits << (6 - waiting) & 63];
  return text;
}

void expect_medium(const isocost::EmbeddedMedium& medium) {
  const auto modality = isocost::modality_from_name(medium.extension);
  if (!modality || *modality == isocost::Modality::kText || medium.bytes.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = isocost::decode_base64(text)) {
    std::string digits(text);
    std::erase_if(digits, [](char c) {
      return std::string_view(" \t\r\n=").find(c) != std::string_view::npos;
    });
    std::ranges::replace(digits, '-', '+');
    std::ranges::replace(digits, '_', '/');
    const std::string again = encode(*bytes);
    // The last digit may have bits of no byte.
    if (again.size() != digits.size()) std::abort();
    if (again.substr(0, again.size() - again.size() % 4) !=
        digits.substr(0, digits.size() - digits.size() % 4)) {
      std::abort();
    }
    if (isocost::decode_base64(again).value() != *bytes) std::abort();
  }
  if (isocost::decode_percents(text).size() > size) std::abort();
  if (const auto medium = isocost::medium_of_url(text); medium && *medium) expect_medium(**medium);
  if (const auto medium = isocost::medium_of_base64(text, "image/png")) expect_medium(*medium);
  if (const auto medium = isocost::medium_if_base64(text)) expect_medium(*medium);
  return 0;
}
