#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "loader/dataset/formats/ignored_parts.h"
#include "loader/dataset/formats/sample_fields.h"

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
  /// The place of a sample's text among the members of a tar: "json[caption],txt". Empty: its text
  /// parts, or the `text` of its JSON.
  std::string text = {};
  /// How the samples of a directory are found (directory_format_from_name); empty: its files say.
  std::string format = {};
  /// The split of a data set that has splits; empty: "train", or that there is none.
  std::string split = {};
};

/// The choice of what is read of a sample. Immutable; const-safe.
struct SampleReading {
  IgnoredParts ignored;
  std::string weight_key = ReadingOptions{}.weight_key;
  /// The places of media and text, where they are said. Null: parts are read as they lie.
  std::shared_ptr<const SampleFields> fields = nullptr;

  /// Errors: those of IgnoredParts::parse and fields_of_text; kInvalidArgument for a weight key
  /// that is read as something else, or that no member is called.
  static Result<SampleReading> create(const ReadingOptions& options);
  /// Returns a hash of the choice; 0 for that of the default options.
  std::uint64_t hash() const;
};

}  // namespace isocost
