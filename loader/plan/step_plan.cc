#include "loader/plan/step_plan.h"

#include <algorithm>
#include <numeric>

namespace isocost {

std::uint32_t StepPlan::microbatches_of(std::size_t receiver) const {
  if (layout_receivers.empty() || layout_receivers[receiver].module == LayoutModule::kLlm)
    return microbatches;
  return static_cast<std::uint32_t>(encoder[layout_receivers[receiver].replica].size());
}

const PlannedMicrobatch& StepPlan::microbatch_of(std::size_t receiver,
                                                 std::uint32_t microbatch) const {
  if (layout_receivers.empty()) return bin(receiver, microbatch);
  const Receiver& place = layout_receivers[receiver];
  return place.module == LayoutModule::kLlm ? bin(place.replica, microbatch)
                                            : encoder[place.replica][microbatch];
}

std::uint64_t StepPlan::samples_counted(std::size_t receiver, std::uint32_t microbatch) const {
  if (!predicts(receiver)) return 0;
  const auto& samples = microbatch_of(receiver, microbatch).samples;
  return static_cast<std::uint64_t>(
      std::count_if(samples.begin(), samples.end(),
                    [](const PlannedSample& sample) { return sample.weight > 0; }));
}

ModuleSeconds StepPlan::predicted_of(std::size_t receiver, std::uint32_t microbatch) const {
  const PlannedMicrobatch& planned = microbatch_of(receiver, microbatch);
  ModuleSeconds seconds = planned.predicted;
  if (!layout_receivers.empty())
    seconds = layout_receivers[receiver].from_one_rank(seconds, planned.run_load);
  const double slowdown = receiver < slowdowns.size() ? slowdowns[receiver] : 1;
  for (double& of_module : seconds) of_module *= slowdown;
  return seconds;
}

double StepPlan::seconds_of(std::size_t receiver, std::uint32_t microbatch) const {
  const ModuleSeconds seconds = predicted_of(receiver, microbatch);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

}  // namespace isocost
