#pragma once

#include <string>

#include "base/result.h"
#include "costmodel/profile.h"

namespace isocost {

class MultimodalModel;

/// Returns the hardware that the example computes on, as its model profile names it.
std::string example_hardware();

/// Measures the example model for about `budget_s` seconds and returns its model profile. Blocks
/// this thread; prints a line on stderr for each point. Lengths are bounded by those of the demo's
/// media. The model is left with gradients. Errors: those of profile_module.
Result<CostProfile> profile_example(MultimodalModel& model, double budget_s);

/// Measures a model of its own. It computes in `threads` threads, as this process does from then
/// on.
Result<CostProfile> profile_new_example(int threads, double budget_s);

}  // namespace isocost
