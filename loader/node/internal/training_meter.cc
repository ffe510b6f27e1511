#include "loader/node/internal/training_meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/units.h"

namespace isocost {

TrainingMeter::TrainingMeter(const std::vector<std::string>& sources) {
  for (const std::string& name : sources) totals_.sources.push_back({.name = name});
}

RankTotals& TrainingMeter::rank(std::size_t rank) {
  if (rank >= totals_.ranks.size()) totals_.ranks.resize(rank + 1);
  return totals_.ranks[rank];
}

void TrainingMeter::planned(const StepPlan& plan) {
  std::vector<double> seconds(plan.receivers());
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    for (std::uint32_t m = 0; m < plan.microbatches_of(r); ++m) {
      seconds[r] += plan.seconds_of(r, m);
    }
  }
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double most = *std::max_element(seconds.begin(), seconds.end());

  const MutexLock lock(mutex_);
  rank(seconds.size() - 1);
  totals_.imbalance = sum > 0 ? most * static_cast<double>(seconds.size()) / sum : 1;
  totals_.makespan_s = plan.makespan_s;
  totals_.lower_bound_s = plan.lower_bound_s;
}

void TrainingMeter::sent(const SealedStep& step, std::size_t receiver, std::uint32_t microbatch) {
  const std::uint64_t samples = step.plan.samples_counted(receiver, microbatch);
  const bool by_source = !step.sources.empty() && step.plan.predicts(receiver);
  const MutexLock lock(mutex_);
  totals_.microbatches_sent += 1;
  totals_.samples_sent += samples;
  if (by_source) count_sources(step, step.plan.microbatch_of(receiver, microbatch));
}

// Counts the samples that StepPlan::samples_counted counts.
void TrainingMeter::count_sources(const SealedStep& step, const PlannedMicrobatch& microbatch) {
  for (const PlannedSample& planned : microbatch.samples) {
    if (!(planned.weight > 0)) continue;
    const SampleOfSource& of = step.sources[planned.index];
    SourceTotals& totals = totals_.sources[of.source];
    totals.samples_sent += 1;
    totals.labels_sent += static_cast<std::uint64_t>(step.samples[planned.index].load.label_tokens);
    totals.predicted_s += of.predicted_s;
  }
}

void TrainingMeter::reported(const StepId& id, std::int32_t rank_number, const Report& report,
                             const StepPlan& plan) {
  const auto receiver = static_cast<std::size_t>(rank_number);
  const std::uint32_t microbatch = report.position.microbatch;
  const ModuleSeconds predicted = plan.predicted_of(receiver, microbatch);
  const MutexLock lock(mutex_);
  RankTotals& totals = rank(receiver);
  if (is_module_time(report.data_wait_s)) totals.data_wait += report.data_wait_s;
  if (is_module_time(report.measuring_s)) totals.measuring += report.measuring_s;
  double busy = 0;
  for (std::size_t m = 0; m < kModules; ++m) {
    const double seconds = report.seconds.at(m);
    if (!is_module_time(seconds)) continue;
    busy += seconds;
    if (!(predicted.at(m) > 0)) continue;
    totals.predicted.at(m) += predicted.at(m);
    totals.measured.at(m) += seconds;
  }
  if (!is_module_time(busy)) return;
  if (is_module_time(report.forward_s) && report.forward_s <= busy)
    totals.forward += report.forward_s;
  OpenStep& step = open_.at(id, [&plan] { return OpenStep(plan); });
  if (!step.missing.take(receiver, microbatch)) return;
  step.busy[receiver] += busy;
  if (step.missing.left() > 0) return;
  close(step);
  open_.erase(id);
}

void TrainingMeter::waited(std::int32_t rank_number, const Report& report) {
  const MutexLock lock(mutex_);
  RankTotals& totals = rank(static_cast<std::size_t>(rank_number));
  if (is_module_time(report.data_wait_s)) totals.data_wait += report.data_wait_s;
  if (is_module_time(report.measuring_s)) totals.measuring += report.measuring_s;
}

void TrainingMeter::close(const OpenStep& step) {
  totals_.measured_steps += 1;
  const double slowest = *std::max_element(step.busy.begin(), step.busy.end());
  for (std::size_t i = 0; i < step.busy.size(); ++i) {
    RankTotals& totals = rank(i);
    totals.busy += step.busy[i];
    totals.idle += slowest - step.busy[i];
  }
}

TrainingTotals TrainingMeter::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

}  // namespace isocost
