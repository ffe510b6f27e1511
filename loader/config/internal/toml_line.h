#pragma once

#include <string>
#include <string_view>

#include <toml++/toml.h>

namespace isocost {

/// Returns the file and line of a value, "mixture.toml:7", as errors begin.
inline std::string toml_line(const toml::node& node, std::string_view file) {
  return std::string(file) + ":" + std::to_string(node.source().begin.line);
}

}  // namespace isocost
