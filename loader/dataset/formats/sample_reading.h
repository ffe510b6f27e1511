#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "loader/dataset/formats/ignored_parts.h"

namespace isocost {

/// Version of the rules by which a sample is read from a shard: which members are its parts, its
/// order and its weights. A change that gives a data set other samples raises it, and saved states
/// of other versions are refused. A new form of the index file alone does not.
inline constexpr std::uint64_t kReadingVersion = 1;

/// Options that decide what is read of a sample. An index belongs to one choice of them.
struct ReadingOptions {
  std::string ignore_parts;  ///< Extensions of parts that are left out: "avif,heic".
  /// The member of a sample's JSON that scales its loss; empty: none does, and each sample has the
  /// weight 1.
  std::string weight_key = "weight";
  /// Directory where relative paths of media in records start; empty: that of the file of records.
  std::string media_root = {};
  /// Whether records are called by their line or array element instead of by their id or key.
  bool number_keys = false;
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
