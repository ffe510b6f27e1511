#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace isocost::cli {

/// Returns the width of the terminal that standard output is; `otherwise` if it is none.
std::size_t terminal_columns(std::size_t otherwise);

/// Returns a text as one line of at most `columns` characters, which ends in "…" where it is cut.
/// White space becomes a blank, and what cannot be printed '?'.
std::string one_line(std::string_view text, std::size_t columns);

/// Returns a text with its lines and tabs, and with '?' for what else cannot be printed.
std::string printable_lines(std::string_view text);

}  // namespace isocost::cli
