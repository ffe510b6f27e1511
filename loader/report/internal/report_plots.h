#pragma once

#include <string>

#include "loader/report/data_profile.h"

namespace isocost::report {

/// Returns the report's figures as HTML: a histogram for each module that has any units, encoder
/// against LLM seconds, the concentration of cost, and the seconds of one global batch, rank by
/// rank.
std::string plots(const DataProfile& profile);

}  // namespace isocost::report
