#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "loader/dataset/catalogue/remarks.h"

namespace isocost::cli {

/// Returns what no model sees, and media that are not what their names say, for --json.
nlohmann::ordered_json remarks_json(const std::vector<Remark>& remarks);

}  // namespace isocost::cli
