#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace isocost {

/// Returns the head of a self-contained page and the start of its body. The title is escaped.
std::string html_head(std::string_view title);
/// Returns the end of a page.
std::string html_end();
/// Returns a figure in large type over its explanation; tiles stand in an element of class "tiles".
std::string html_tile(std::string_view value, std::string_view text);
/// Returns a row of a table, whose first `texts` cells hold text. Cells are escaped.
std::string html_row(const std::vector<std::string>& cells, const char* tag = "td",
                     std::size_t texts = 0);
/// Returns text for a page: & < > " ' are escaped.
std::string html_text(std::string_view text);

}  // namespace isocost
