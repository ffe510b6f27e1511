#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Returns RecipeFamily::description of a family: its options, and its name.
template <typename Options>
std::string description_of(std::string_view family, const Options& options) {
  nlohmann::json json = options;
  json["family"] = family;
  return json.dump();
}

/// Returns the options that description_of wrote. Errors: kCorrupt.
template <typename Options>
Result<Options> options_from(std::string_view family, std::string_view description) {
  const auto json = nlohmann::json::parse(description, nullptr, /*allow_exceptions=*/false);
  try {
    return json.get<Options>();
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::kCorrupt,
                 "description of " + std::string(family) + ": " + error.what());
  }
}

}  // namespace isocost
