#include "loader/dataset/records/internal/percents.h"

#include <charconv>
#include <cstddef>
#include <cstdint>

namespace isocost {

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
