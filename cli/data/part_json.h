#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "decode/shape/sample_shape.h"

namespace isocost::cli {

/// Returns what a part's header says, as JSON.
nlohmann::ordered_json part_json(const std::string& name, const PartShape& shape);

}  // namespace isocost::cli
