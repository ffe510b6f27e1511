#pragma once

#include <string>
#include <vector>

#include "balancer/layout/layout.h"
#include "balancer/layout/layout_model.h"
#include "base/result.h"
#include "cli/lab/simulate_arguments.h"
#include "cli/lab/simulate_steps.h"

namespace isocost::cli {

void print_simulation_text(const SimulateArguments& arguments, const Layout& layout,
                           const JobModel& job, const SimulatedPolicies& results);
void print_simulation_json(const SimulateArguments& arguments, const Layout& layout,
                           const JobModel& job, const SimulatedPolicies& results);

/// Draws the first step of every policy into `path`; nothing if it is empty. Errors: kIo.
Status write_simulation_svg(const std::string& path, const std::vector<PolicyResult>& results);

}  // namespace isocost::cli
