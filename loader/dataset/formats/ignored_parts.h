#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// The parts of samples that are left out on purpose, by extension. Immutable; const-safe.
class IgnoredParts {
 public:
  IgnoredParts() = default;
  /// Reads a list of extensions such as "avif,seg.png", in which case and order do not matter; an
  /// empty list ignores nothing. Errors: kInvalidArgument for an entry that no extension can be.
  static Result<IgnoredParts> parse(std::string_view list);

  /// Returns whether a part of this name ("seg.png", "0.seg.png") is left out.
  bool contains(std::string_view part_name) const;
  /// Returns a hash of the extensions; 0 if there are none.
  std::uint64_t hash() const;

 private:
  std::vector<std::string> extensions_;  // in lower case, sorted, each once
};

}  // namespace isocost
