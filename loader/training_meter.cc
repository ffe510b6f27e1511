#include "loader/training_meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace isocost {
namespace {

// A trainer that never reports on some microbatch leaves its steps open; the oldest go.
constexpr std::size_t kMostOpenSteps = 16;

bool is_time(double seconds) {
  return seconds >= kLeastModuleSeconds && seconds <= kMostModuleSeconds;  // NaN, too, is not
}

double sum_of(const ModuleSeconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

}  // namespace

RankTotals& TrainingMeter::rank(std::size_t rank) {
  if (rank >= totals_.ranks.size()) totals_.ranks.resize(rank + 1);
  return totals_.ranks[rank];
}

void TrainingMeter::planned(const StepPlan& plan) {
  std::vector<double> seconds(plan.places.size() / plan.microbatches);
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    seconds[i / plan.microbatches] += sum_of(plan.places[i].predicted);
  }
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double most = *std::max_element(seconds.begin(), seconds.end());

  const std::lock_guard lock(mutex_);
  rank(seconds.size() - 1);
  totals_.imbalance = sum > 0 ? most * static_cast<double>(seconds.size()) / sum : 1;
  totals_.makespan_s = plan.makespan_s;
  totals_.lower_bound_s = plan.lower_bound_s;
}

void TrainingMeter::sent(const PlannedMicrobatch& place) {
  const auto counted = std::count_if(place.samples.begin(), place.samples.end(),
                                     [](const PlannedSample& sample) { return sample.weight > 0; });
  const std::lock_guard lock(mutex_);
  totals_.microbatches_sent += 1;
  totals_.samples_sent += static_cast<std::uint64_t>(counted);
}

void TrainingMeter::reported(const Reported& reported) {
  const PlannedMicrobatch& place =
      reported.plan.place(reported.rank, reported.report.position.microbatch);
  const std::lock_guard lock(mutex_);
  RankTotals& totals = rank(static_cast<std::size_t>(reported.rank));
  if (is_time(reported.report.data_wait_s)) totals.data_wait += reported.report.data_wait_s;
  for (std::size_t i = 0; i < kModules; ++i) {
    const ModuleLoad& load = place.load.modules.at(i);
    const bool loaded = load.sequences > 0 || load.units > 0;
    if (!loaded || !is_time(reported.seconds.at(i))) continue;
    totals.predicted.at(i) += place.predicted.at(i);
    totals.measured.at(i) += reported.seconds.at(i);
  }
  add_whole(reported);
}

// With mutex_ held.
void TrainingMeter::add_whole(const Reported& reported) {
  double busy = 0;
  for (const double seconds : reported.report.seconds) busy += is_time(seconds) ? seconds : 0;
  if (!is_time(busy)) return;
  const Position& at = reported.report.position;
  const std::size_t places = reported.plan.places.size();
  const auto [found, fresh] = open_.try_emplace(StepId{reported.job, at.epoch, at.step});
  OpenStep& step = found->second;
  if (fresh) {
    step = {std::vector<bool>(places), places,
            std::vector<double>(places / reported.plan.microbatches)};
  }
  const auto rank = static_cast<std::size_t>(reported.rank);
  const std::size_t place = rank * reported.plan.microbatches + at.microbatch;
  if (place >= step.seen.size() || step.seen[place]) return;
  step.seen[place] = true;
  step.missing -= 1;
  step.busy[rank] += busy;
  if (step.missing == 0) {
    close(step);
    open_.erase(found);
  } else if (open_.size() > kMostOpenSteps) {
    open_.erase(open_.begin());
  }
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

TrainingMeter::Totals TrainingMeter::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace isocost
