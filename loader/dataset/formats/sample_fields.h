#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/field_access.h"

namespace isocost {

/// A field of a sample: its places, of which the first that a sample has counts. Value type.
struct SampleField {
  std::string name;  ///< The setting that says the places, for messages.
  std::vector<FieldAccess> places;

  bool is_given() const { return !places.empty(); }
};

/// Says which members of a tar are a sample's media and text, where a data set or a setting says
/// so. Value type.
struct SampleFields {
  SampleField text;
  SampleField question;  ///< A user's turn: the sample is a conversation.
  SampleField answer;    ///< The assistant's turn: a text, or a list of texts, of which the first.
  SampleField medium;    ///< A member.
  std::vector<std::string> parts;  ///< Names of the members that alone are read; empty: all.
  /// Whether the sample has the media and the texts of its fields alone.
  bool alone = false;

  /// Returns a hash of what is read; the names of the settings do not count.
  std::uint64_t hash() const;
};

/// Reads the `text` setting: the places of a sample's text, as in "json[caption],txt". Errors:
/// kInvalidArgument.
Result<SampleFields> fields_of_text(std::string_view text);

}  // namespace isocost
