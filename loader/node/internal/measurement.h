#pragma once

#include <cstddef>

#include "costmodel/cost_model.h"
#include "loader/plan/step_plan.h"
#include "transport/messages.h"

namespace isocost {

/// What a receiver reports of one of its microbatches, as the cost model is in: seconds of whole
/// modules on one rank. A view into `plan`.
Measurement measurement_of(const StepPlan& plan, std::size_t receiver, const Report& report);

}  // namespace isocost
