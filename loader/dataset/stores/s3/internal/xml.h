#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// An element of a document, without its attributes. Value type.
struct XmlElement {
  std::string name;  ///< Without namespace.
  std::string text;  ///< Its own, not that of its children.
  std::vector<XmlElement> children;

  /// Returns the first child of this name; null: there is none.
  const XmlElement* child(std::string_view child_name) const;
  /// Returns the text of the first child of this name; empty: there is none.
  std::string_view text_of(std::string_view child_name) const;
};

struct XmlLimits {
  std::size_t max_bytes = std::size_t{16} << 20;
  std::size_t max_depth = 8;
  std::size_t max_elements = 200'000;
};

/// Parses a document from outside and returns its root. Refuses a document type declaration, so
/// that nothing is expanded or fetched. Errors: kCorrupt, as a predicate: "is no XML: ...".
Result<XmlElement> parse_xml(std::string_view text, const XmlLimits& limits = {});

}  // namespace isocost
