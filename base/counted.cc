#include "base/counted.h"

namespace isocost {

std::string plural(std::string_view noun) {
  constexpr std::string_view kVowels = "aeiou";
  const auto is_vowel = [&](std::size_t i) {
    return kVowels.find(noun[i]) != std::string_view::npos;
  };
  for (const std::string_view hissing : {"ch", "sh", "s", "x"}) {
    if (noun.ends_with(hissing)) return std::string(noun) + "es";
  }
  if (noun.size() > 1 && noun.ends_with('y') && !is_vowel(noun.size() - 2)) {
    return std::string(noun.substr(0, noun.size() - 1)) + "ies";
  }
  return std::string(noun) + "s";
}

}  // namespace isocost
