#include "loader/node/internal/planning_loop.h"

#include <cstddef>
#include <utility>

#include "base/counted.h"
#include "loader/dataset/bad_samples.h"

namespace isocost {

PlanningLoop::PlanningLoop(PlanningInput input, Options options, CurrentJob& job,
                           TrainingMeter& meter, LogSink log)
    : input_(std::move(input)),
      options_(std::move(options)),
      job_(job),
      meter_(meter),
      log_(std::move(log)) {}

void PlanningLoop::run(const JobTerms& job, const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    before_job_ = totals_;
  }
  input_.begin_job(job);
  Status planned = plan_epochs(job, stop);
  input_.end_job();
  // A request to stop, or to make way for another job, is not a failure.
  if (planned || planned.error().code() == ErrorCode::kCancelled) return;
  job_.fail(std::move(planned).error());
}

Status PlanningLoop::plan_epochs(const JobTerms& job, const std::stop_token& stop) {
  std::uint32_t epoch = job.start.epoch;
  for (; options_.epochs == 0 || epoch < options_.epochs; ++epoch) {
    ISOCOST_TRY(plan_epoch(job, epoch, stop));
  }
  // A job that was saved after its last epoch has nothing left to train on; its ranks receive the
  // end of that epoch.
  if (epoch != job.start.epoch) return {};
  EpochEnd end;
  end.epoch = epoch;
  end.last_epoch = true;
  return push(job, end);
}

Status PlanningLoop::plan_epoch(const JobTerms& job, std::uint32_t epoch,
                                const std::stop_token& stop) {
  const std::uint32_t first_step = epoch == job.start.epoch ? job.start.step : 0;
  const std::uint64_t steps = input_.steps(epoch);
  EpochEnd end;
  end.epoch = epoch;
  end.last_epoch = epoch + 1 == options_.epochs;
  std::shared_ptr<SealedStep> before;  // the last step but one, until the last one is sealed
  for (std::uint64_t step = first_step; step < steps; ++step) {
    if (before == nullptr) ISOCOST_TRY(job_.wait_for_room(job.id, stop));
    ISOCOST_ASSIGN(std::shared_ptr<SealedStep> sealed,
                   input_.seal(epoch, static_cast<std::uint32_t>(step), stop));
    if (step + 2 == steps) {
      before = std::move(sealed);
      continue;
    }
    // The epoch ends with the step before the last one if all samples of that one are bad.
    if (step + 1 == steps && (sealed != nullptr || before != nullptr)) {
      (sealed != nullptr ? sealed : before)->ends_epoch = true;
    }
    if (before != nullptr) {
      ISOCOST_TRY(push(job, std::exchange(before, nullptr), end));
      if (sealed != nullptr) ISOCOST_TRY(job_.wait_for_room(job.id, stop));
    }
    ISOCOST_TRY(push(job, std::move(sealed), end));
  }
  end.steps = static_cast<std::uint32_t>(steps);
  end.dropped = input_.dropped(epoch);
  end.bad = input_.bad();
  if (end.planned == 0 && first_step == 0 && steps > 0) return all_bad(epoch);
  if (end.dropped > 0) {
    log(log_, LogLevel::kInfo,
        "epoch " + std::to_string(epoch) + ": " + counted(end.dropped, "sample") +
            " of the tail dropped (tail = drop)");
  }
  return push(job, end);
}

Error PlanningLoop::all_bad(std::uint32_t epoch) const {
  const std::string& file = options_.bad_samples_file;
  const std::optional<BadSample> last = input_.last_bad();
  // If no sample keeps a limit, the user must raise it; any other reason means that the data is
  // damaged.
  const bool over_limit = last && last->over_limit;
  return {over_limit ? ErrorCode::kResourceExhausted : ErrorCode::kCorrupt,
          "every sample of epoch " + std::to_string(epoch) + " is bad" +
              (file.empty() ? "" : ": " + file + " lists the reasons") +
              (last ? "; the last one: " + describe(*last) : "")};
}

Status PlanningLoop::push(const JobTerms& job, std::shared_ptr<SealedStep> step, EpochEnd& end) {
  if (step == nullptr) return {};  // all of its samples are bad
  count(*step);
  end.planned += step->samples.size();
  return job_.push(job.id, std::move(step));
}

Status PlanningLoop::push(const JobTerms& job, const EpochEnd& end) {
  ISOCOST_TRY(job_.push(job.id, end));
  const MutexLock lock(mutex_);
  totals_.epochs += 1;
  totals_.dropped += end.dropped;
  return {};
}

void PlanningLoop::count(const SealedStep& step) {
  meter_.planned(step.plan);
  if (!step.plan.over_limit.empty()) warn_over_limit(step);
  std::size_t placed = 0;
  for (const PlannedMicrobatch& bin : step.plan.bins) placed += bin.samples.size();
  const double gap =
      step.plan.lower_bound_s > 0 ? step.plan.makespan_s / step.plan.lower_bound_s - 1 : 0;
  const MutexLock lock(mutex_);
  totals_.steps += 1;
  totals_.planned += step.samples.size();
  totals_.repeated += placed - step.samples.size();
  totals_.over_limit += step.plan.over_limit.size();
  // Computes running means over steps.
  const auto n = static_cast<double>(totals_.steps);
  totals_.plan_seconds_mean += (step.plan_seconds - totals_.plan_seconds_mean) / n;
  totals_.gap_mean += (gap - totals_.gap_mean) / n;
}

void PlanningLoop::warn_over_limit(const SealedStep& step) const {
  const SampleOverLimit& first = step.plan.over_limit.front();
  log(log_, LogLevel::kWarning,
      "epoch " + std::to_string(step.epoch) + ", step " + std::to_string(step.step) + ": " +
          counted(step.plan.over_limit.size(), "sample") +
          " in a microbatch beyond its limit, by a model profile that came after the start; "
          "sample " +
          std::to_string(step.samples[first.index].id) + " of the data set " + first.reason);
}

void PlanningLoop::add_to(NodeSummary& summary) const {
  const MutexLock lock(mutex_);
  summary.epochs = totals_.epochs;
  summary.steps = totals_.steps;
  summary.planned = totals_.planned;
  summary.repeated = totals_.repeated;
  summary.over_limit = totals_.over_limit;
  summary.dropped = totals_.dropped;
  summary.plan_seconds_mean = totals_.plan_seconds_mean;
  summary.gap_mean = totals_.gap_mean;
  summary.last_job.steps = totals_.steps - before_job_.steps;
  summary.last_job.planned = totals_.planned - before_job_.planned;
}

}  // namespace isocost
