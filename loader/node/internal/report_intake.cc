#include "loader/node/internal/report_intake.h"

#include <cstddef>
#include <utility>

#include "base/counted.h"
#include "loader/node/internal/measurement.h"

namespace isocost {

const char* ReportIntake::try_take(std::int32_t rank, const Report& report) {
  CurrentJob::HeldStep held = context_.job.find(rank, report.position);
  if (held.step == nullptr) return "the step is no longer held";
  const StepPlan& plan = held.step->plan;
  const auto receiver = static_cast<std::size_t>(rank);
  const StepId id{held.job, report.position.epoch, report.position.step};
  const bool is_new =
      measured_.at(id, [&] { return MeasuredModules(plan); }).take(receiver, report);
  if (!is_new) return "its seconds were reported before";
  const Measurement measurement = measurement_of(plan, receiver, report);
  context_.meter.reported(id, rank, report, plan);
  if (context_.timeline != nullptr) context_.timeline->reported(id, rank, report, plan);
  if (!context_.model.queue_measurement(measurement, std::move(held.step))) {
    return "too many measurements wait for the cost model";
  }
  return nullptr;
}

void ReportIntake::take(std::int32_t rank, const Report& report) {
  const char* why = try_take(rank, report);
  if (why == nullptr) return;
  std::int64_t dropped = 0;
  {
    const MutexLock lock(mutex_);
    dropped = ++dropped_;
  }
  if ((dropped & (dropped - 1)) != 0) return;
  log(context_.log, LogLevel::kWarning,
      context_.name(rank) + ": report on epoch " + std::to_string(report.position.epoch) +
          ", step " + std::to_string(report.position.step) + " dropped: " + why + "; " +
          counted(dropped, "report") + " dropped so far");
}

std::int64_t ReportIntake::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

}  // namespace isocost
