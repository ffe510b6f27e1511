#pragma once

#include <string>

#include "loader/report/data_profile.h"

namespace isocost {

/// A page for people that needs nothing but itself: figures, histograms of encoder and LLM units,
/// their joint distribution, how cost is concentrated, an example batch rank by rank, the heaviest
/// samples. HTML with inline SVG, no script. Names from the data set are escaped. Pure.
std::string data_report_html(const DataProfile& profile);

}  // namespace isocost
