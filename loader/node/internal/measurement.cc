#include "loader/node/internal/measurement.h"

#include <algorithm>

namespace isocost {

bool has_seconds(const Report& report) {
  return std::ranges::any_of(report.seconds, is_module_time);
}

Measurement measurement_of(const StepPlan& plan, std::size_t receiver, const Report& report) {
  const PlannedMicrobatch& bin = plan.microbatch_of(receiver, report.position.microbatch);
  Measurement measurement;
  measurement.load = bin.run_load;
  measurement.seconds = report.seconds;
  measurement.rank = static_cast<std::int32_t>(receiver);
  measurement.step = measured_step(report.position);
  measurement.measuring_s = report.measuring_s;
  measurement.shape = bin.shape;
  double all = 0;
  for (const double seconds : report.seconds) all += std::max(seconds, 0.0);
  const bool layout = !plan.layout_receivers.empty();
  // A frozen stage would say that others have no backward pass, either.
  const bool has_backward = !layout || plan.layout_receivers[receiver].has_backward;
  if (has_backward && report.forward_s >= 0 && all > 0) {
    measurement.forward_share = report.forward_s / all;
  }
  if (layout) {
    measurement.seconds = plan.layout_receivers[receiver].as_one_rank(report.seconds, bin.run_load);
  }
  return measurement;
}

}  // namespace isocost
