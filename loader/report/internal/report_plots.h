#pragma once

#include <string>

#include "loader/report/data_profile.h"

namespace isocost::report {

/// The report's figures: histograms of the units that there are, module by module; encoder and LLM
/// seconds together; how cost is concentrated; one global batch rank by rank. Pure.
std::string plots(const DataProfile& profile);

}  // namespace isocost::report
