#include "loader/step_plan.h"

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
  ModuleSeconds seconds = microbatch_of(receiver, microbatch).predicted;
  const double speed = receiver < speeds.size() ? speeds[receiver] : 1;
  for (std::size_t m = 0; m < kModules; ++m) seconds.at(m) *= share_of(receiver, m) * speed;
  return seconds;
}

}  // namespace isocost
