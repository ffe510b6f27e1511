#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// A limit like "25" or "1.5%".
struct CountOrShare {
  std::optional<std::uint64_t> count;
  double share = 0;  ///< Used if there is no count.

  /// Reads a limit; "0%" is the count 0. Errors: kInvalidArgument with the option's name.
  static Result<CountOrShare> parse(std::string_view option, std::string_view text);
  bool allows(std::uint64_t number, std::uint64_t of) const {
    if (count) return number <= *count;
    return static_cast<double>(number) <= share * static_cast<double>(of);
  }
};

}  // namespace isocost
