#pragma once

#include <string>

#include "cli/plan/plan_output.h"

namespace isocost::cli {

/// Returns a self-contained HTML page: the best layouts, what balancing saves, and what the loader
/// needs.
std::string plan_html(const PlanReport& report, const JobModel& job);

}  // namespace isocost::cli
