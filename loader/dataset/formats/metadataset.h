#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isocost {

/// Returns why a YAML text is no data set if it is a metadataset of Energon, with the mixture.toml
/// that means the same as its split. Nothing for other texts.
std::optional<std::string> why_no_metadataset(std::string_view text, std::string_view split);

}  // namespace isocost
