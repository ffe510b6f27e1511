#pragma once

#include <cstddef>
#include <cstdint>

#include "costmodel/cost_model.h"
#include "loader/plan/step_plan.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Returns a step's number in the cost model's terms: it grows across epochs.
constexpr std::uint64_t measured_step(const Position& position) {
  return std::uint64_t{position.epoch} << 32 | position.step;
}

/// Returns the first step of which measurements may still come when a rank has reached a position,
/// since other ranks may be a step behind. At the start of an epoch these are all steps of the last
/// one, whose number of steps is not known here.
constexpr std::uint64_t first_open_step(const Position& position) {
  if (position.step > 0) return measured_step({position.epoch, position.step - 1, 0});
  return position.epoch > 0 ? measured_step({position.epoch - 1, 0, 0}) : 0;
}

/// Returns whether a report has the seconds of any module.
bool has_seconds(const Report& report);

/// Converts a receiver's report on a microbatch into the cost model's terms: seconds of whole
/// modules on one rank. The result is a view into `plan`.
Measurement measurement_of(const StepPlan& plan, std::size_t receiver, const Report& report);

}  // namespace isocost
