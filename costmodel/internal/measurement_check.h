#pragma once

#include "base/result.h"
#include "costmodel/cost_model.h"

namespace isocost {

/// Checks that a measurement is one that can be: rank, seconds, load, forward share and shape.
/// Errors: kInvalidArgument with what is wrong.
Status check_measurement(const Measurement& measurement);

}  // namespace isocost
