#include "loader/dataset/formats/internal/shown_begin.h"

#include <cstddef>

#include "base/utf8.h"

namespace isocost {

std::string shown_begin(std::string_view text) {
  constexpr std::size_t kShown = 100;
  return printable_utf8(text.substr(0, kShown));
}

}  // namespace isocost
