#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "loader/dataset/formats/ignored_parts.h"

namespace isocost {

/// Options that decide what is read of a sample. An index belongs to one choice of them.
struct ReadingOptions {
  std::string ignore_parts;  ///< Extensions of parts that are left out: "avif,heic".
  /// The member of a sample's JSON that scales its loss; empty: none does, and each sample has the
  /// weight 1.
  std::string weight_key = "weight";
};

/// The choice of what is read of a sample. Immutable; const-safe.
struct SampleReading {
  IgnoredParts ignored;
  std::string weight_key = ReadingOptions{}.weight_key;

  /// Errors: those of IgnoredParts::parse; kInvalidArgument for a weight key that is read as
  /// something else, or that no member is called.
  static Result<SampleReading> create(const ReadingOptions& options);
  /// Returns a hash of the choice; 0 for that of the default options.
  std::uint64_t hash() const;
};

}  // namespace isocost
