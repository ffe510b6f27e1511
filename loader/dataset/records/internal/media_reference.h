#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/sample_part.h"

namespace isocost {

/// A medium as a record names it, or holds it.
struct MediaReference {
  std::optional<Modality> modality;  ///< Nothing: the file's extension, or the content, decides.
  /// The strings of the record that name it, which are equal: a path, a URL or base64. Most media
  /// have one.
  std::vector<nlohmann::ordered_json*> strings;
  bool is_bytes = false;  ///< Whether the string is base64, because its member holds bytes.
  std::string format;     ///< The record's name for the format of its bytes: "wav", "image/png".

  const std::string& name() const { return strings.front()->get_ref<const std::string&>(); }
};

}  // namespace isocost
