#pragma once

#include <string>

#include "base/result.h"
#include "costmodel/profile.h"
#include "examples/multimodal_trainer/model.h"

namespace isocost {

/// What the example computes on, as its profile names it.
std::string example_hardware();

/// Measures the example model on this thread for about `budget_s` seconds, a line on stderr for
/// each point. Lengths are bounded by what the recipe makes of the demo's media. Gradients are left
/// in the model. Errors: those of profile_module.
Result<CostProfile> profile_example(MultimodalModel& model, double budget_s);

}  // namespace isocost
