#pragma once

#include <string>

#include "loader/report/data_profile.h"

namespace isocost {

/// Returns a self-contained HTML page with inline SVG and no script: figures, histograms of units,
/// encoder against LLM seconds, the concentration of cost, one global batch rank by rank, and the
/// most expensive samples. Names from the data set are escaped.
std::string data_report_html(const DataProfile& profile);

}  // namespace isocost
