#pragma once

#include <nlohmann/json_fwd.hpp>

namespace isocost::cli {

/// "version" of the documents that --json prints, where a document has none of its own
/// (docs/compatibility.md says what may change within a version).
inline constexpr int kJsonVersion = 1;

/// Prints an object on standard output, with "version" before its members. `indent` -1 prints one
/// line.
void print_json(const nlohmann::ordered_json& members, int indent = 2);

}  // namespace isocost::cli
