#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isocost {

/// Returns why a text that names no file is not read, and what to do, if it is the address of a
/// file elsewhere ("hf://...") or a command of WebDataset ("pipe:..."). Nothing for other texts.
std::optional<std::string> why_no_address(std::string_view text);

}  // namespace isocost
