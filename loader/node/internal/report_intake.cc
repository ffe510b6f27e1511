#include "loader/node/internal/report_intake.h"

#include <cstddef>
#include <utility>

#include "base/counted.h"
#include "loader/node/internal/measurement.h"

namespace isocost {

namespace {

// Returns the module that the report has seconds of and the receiver's stage no layers; nothing if
// there is none.
std::optional<CostModule> module_elsewhere(const StepPlan& plan, std::size_t receiver,
                                           const Report& report) {
  if (plan.layout_receivers.empty()) return std::nullopt;
  for (std::size_t m = 0; m < kModules; ++m) {
    const bool here = plan.layout_receivers[receiver].work.shares.at(m) > 0;
    if (!here && is_module_time(report.seconds.at(m))) return static_cast<CostModule>(m);
  }
  return std::nullopt;
}

}  // namespace

// Takes how long the rank waited in a step whose seconds were not asked for. Seconds of one rank
// say nothing without those of the others.
std::optional<ReportIntake::Dropped> ReportIntake::take_unmeasured(std::int32_t rank,
                                                                   const Report& report) {
  context_.meter.waited(rank, report);
  context_.model.queue_pass(first_open_step(report.position));
  if (!has_seconds(report)) return std::nullopt;
  return Dropped{"the node did not ask for the seconds of this step (seconds_wanted)"};
}

std::optional<ReportIntake::Dropped> ReportIntake::try_take(std::int32_t rank,
                                                            const Report& report) {
  CurrentJob::HeldStep held = context_.job.find(rank, report.position);
  if (held.step == nullptr) return Dropped{"the step is no longer held"};
  if (!held.step->seconds_wanted) return take_unmeasured(rank, report);
  const StepPlan& plan = held.step->plan;
  const auto receiver = static_cast<std::size_t>(rank);
  if (const auto module = module_elsewhere(plan, receiver, report)) {
    return Dropped{"it has seconds of " + std::string(module_name(*module)) +
                       ", of which this stage has no layers",
                   true};
  }
  const StepId id{held.job, report.position.epoch, report.position.step};
  const bool is_new =
      measured_.at(id, [&] { return MeasuredModules(plan); }).take(receiver, report);
  if (!is_new) return Dropped{"its seconds were reported before"};
  const Measurement measurement = measurement_of(plan, receiver, report);
  context_.meter.reported(id, rank, report, plan);
  if (context_.timeline != nullptr) context_.timeline->reported(id, rank, report, plan);
  if (!context_.model.queue_measurement(measurement, std::move(held.step))) {
    return Dropped{"too many measurements wait for the cost model"};
  }
  return std::nullopt;
}

void ReportIntake::take(std::int32_t rank, const Report& report) {
  const std::optional<Dropped> why = try_take(rank, report);
  if (!why) return;
  std::int64_t dropped = 0;
  {
    const MutexLock lock(mutex_);
    dropped = ++dropped_;
  }
  if ((dropped & (dropped - 1)) != 0) return;
  const std::string text = context_.name(rank) + ": report on epoch " +
                           std::to_string(report.position.epoch) + ", step " +
                           std::to_string(report.position.step) + " dropped: " + why->why + "; " +
                           counted(dropped, "report") + " dropped so far";
  log(context_.log, LogLevel::kWarning, text);
  if (why->tell && context_.tell) context_.tell(rank, text);
}

std::int64_t ReportIntake::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

}  // namespace isocost
