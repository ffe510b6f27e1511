#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

inline constexpr std::string_view kUsualWeightKey = "weight";

/// The members of a sample's JSON part that Isocost reads. A member that is null counts as absent.
struct SampleJson {
  std::string text;     ///< "text", which the model reads in place of the part; empty if absent.
  float weight = 1.0F;  ///< The member that `weight_key` names: finite, >= 0.
  /// Whether it has "messages" or "conversations", which `isocost tokenize` reads.
  bool is_conversation = false;
  /// Names of the members that no model sees, sorted: the first kMostUnread, up to 100 bytes each.
  std::vector<std::string> unread;

  static constexpr std::size_t kMostUnread = 100;
};

/// Parses a JSON part as Python's json module writes it (decode/bytes/json_reader.h). An empty
/// `weight_key` reads no weight. Errors: kCorrupt if it is not a JSON object in UTF-8, or if a
/// member has another type or is out of range.
Result<SampleJson> parse_sample_json(std::string_view text,
                                     std::string_view weight_key = kUsualWeightKey);

}  // namespace isocost
