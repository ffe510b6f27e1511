#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// The members of a sample's JSON part that Isocost reads; others are ignored.
struct SampleJson {
  std::string text;     ///< "text", which the model reads in place of the part; empty if absent.
  float weight = 1.0F;  ///< "weight": finite, >= 0.
  /// Whether it has "messages" or "conversations", which `isocost tokenize` reads.
  bool is_conversation = false;
};
/// Parses a JSON part. Errors: kCorrupt if it is not a JSON object in UTF-8, or if a member has
/// another type or is out of range.
Result<SampleJson> parse_sample_json(std::string_view text);

}  // namespace isocost
