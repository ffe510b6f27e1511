#pragma once

#include <string>

#include "base/result.h"
#include "costmodel/profile.h"
#include "examples/multimodal_trainer/model.h"

namespace isocost {

/// Returns the hardware that the example computes on, as its model profile names it.
std::string example_hardware();

/// Measures the example model for about `budget_s` seconds and returns its model profile. Blocks
/// this thread; prints a line on stderr for each point. Lengths are bounded by those of the demo's
/// media. The model is left with gradients. Errors: those of profile_module.
Result<CostProfile> profile_example(MultimodalModel& model, double budget_s);

}  // namespace isocost
