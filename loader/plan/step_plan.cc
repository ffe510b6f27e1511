#include "loader/plan/step_plan.h"

#include <numeric>

namespace isocost {

std::uint32_t StepPlan::microbatches_of(std::size_t receiver) const {
  if (seats.empty() || seats[receiver].module == LayoutModule::kLlm) return microbatches;
  return static_cast<std::uint32_t>(encoder[seats[receiver].replica].size());
}

const PlannedMicrobatch& StepPlan::microbatch_of(std::size_t receiver,
                                                 std::uint32_t microbatch) const {
  if (seats.empty()) return bin(receiver, microbatch);
  const Seat& seat = seats[receiver];
  return seat.module == LayoutModule::kLlm ? bin(seat.replica, microbatch)
                                           : encoder[seat.replica][microbatch];
}

ModuleSeconds StepPlan::predicted_of(std::size_t receiver, std::uint32_t microbatch) const {
  const PlannedMicrobatch& planned = microbatch_of(receiver, microbatch);
  ModuleSeconds seconds = planned.predicted;
  if (!seats.empty()) seconds = seats[receiver].from_one_rank(seconds, planned.run_load);
  const double speed = receiver < speeds.size() ? speeds[receiver] : 1;
  for (double& of_module : seconds) of_module *= speed;
  return seconds;
}

double StepPlan::seconds_of(std::size_t receiver, std::uint32_t microbatch) const {
  const ModuleSeconds seconds = predicted_of(receiver, microbatch);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

}  // namespace isocost
