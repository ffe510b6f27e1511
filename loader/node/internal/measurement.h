#pragma once

#include <cstddef>

#include "costmodel/cost_model.h"
#include "loader/plan/step_plan.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Converts a receiver's report on a microbatch into the cost model's terms: seconds of whole
/// modules on one rank. The result is a view into `plan`.
Measurement measurement_of(const StepPlan& plan, std::size_t receiver, const Report& report);

}  // namespace isocost
