#include "loader/dataset/sample_name.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/utf8.h"

namespace isocost {

std::string printable_name(std::string_view name) {
  constexpr std::size_t kMost = 4096;
  std::string printable;
  for (std::string_view rest = name; !rest.empty() && printable.size() <= kMost;) {
    const std::size_t valid = valid_utf8_prefix(
        std::span(reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size()));
    printable += printable_utf8(rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    printable += fmt::format("\\x{:02X}", static_cast<unsigned char>(rest.front()));
    rest.remove_prefix(1);
  }
  return printable.size() <= kMost ? printable : printable_utf8(name);
}

std::string sample_name(std::string_view shard, std::string_view key) {
  return printable_name(std::string(shard) + "/" + std::string(key));
}

}  // namespace isocost
