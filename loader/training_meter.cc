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
  std::vector<double> seconds(plan.receivers());
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    for (std::uint32_t m = 0; m < plan.microbatches_of(r); ++m) {
      seconds[r] += sum_of(plan.predicted_of(r, m));
    }
  }
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const double most = *std::max_element(seconds.begin(), seconds.end());

  const std::lock_guard lock(mutex_);
  rank(seconds.size() - 1);
  totals_.imbalance = sum > 0 ? most * static_cast<double>(seconds.size()) / sum : 1;
  totals_.makespan_s = plan.makespan_s;
  totals_.lower_bound_s = plan.lower_bound_s;
}

void TrainingMeter::sent(const StepPlan& plan, std::size_t receiver, std::uint32_t microbatch) {
  const PlannedMicrobatch& bin = plan.microbatch_of(receiver, microbatch);
  const auto counted = std::count_if(bin.samples.begin(), bin.samples.end(),
                                     [](const PlannedSample& sample) { return sample.weight > 0; });
  const std::lock_guard lock(mutex_);
  totals_.microbatches_sent += 1;
  if (plan.predicts(receiver)) totals_.samples_sent += static_cast<std::uint64_t>(counted);
}

void TrainingMeter::reported(const Reported& reported) {
  const auto receiver = static_cast<std::size_t>(reported.rank);
  const std::uint32_t microbatch = reported.report.position.microbatch;
  const PlannedMicrobatch& bin = reported.plan.microbatch_of(receiver, microbatch);
  const std::lock_guard lock(mutex_);
  RankTotals& totals = rank(receiver);
  if (is_time(reported.report.data_wait_s)) totals.data_wait += reported.report.data_wait_s;
  const ModuleSeconds predicted = reported.plan.predicted_of(receiver, microbatch);
  for (std::size_t i = 0; i < kModules; ++i) {
    const ModuleLoad& load = bin.load.modules.at(i);
    const bool loaded = load.sequences > 0 || load.units > 0;
    if (!loaded || !is_time(reported.seconds.at(i))) continue;
    totals.predicted.at(i) += predicted.at(i);
    totals.measured.at(i) += reported.plan.share_of(receiver, i) * reported.seconds.at(i);
  }
  add_whole(reported);
}

// An encoder's microbatch may hold nothing, and then nothing is measured.
TrainingMeter::OpenStep TrainingMeter::open_step(const StepPlan& plan) {
  OpenStep step;
  step.busy.resize(plan.receivers());
  for (std::size_t r = 0; r < plan.receivers(); ++r) {
    std::vector<bool>& unseen = step.unseen.emplace_back();
    for (std::uint32_t m = 0; m < plan.microbatches_of(r); ++m) {
      unseen.push_back(!plan.microbatch_of(r, m).samples.empty());
      if (unseen.back()) step.missing += 1;
    }
  }
  return step;
}

// With mutex_ held.
void TrainingMeter::add_whole(const Reported& reported) {
  double busy = 0;
  for (const double seconds : reported.report.seconds) busy += is_time(seconds) ? seconds : 0;
  if (!is_time(busy)) return;
  const double forward = reported.report.forward_s;
  if (is_time(forward) && forward <= busy) {
    rank(static_cast<std::size_t>(reported.rank)).forward += forward;
  }
  const Position& at = reported.report.position;
  const auto [found, fresh] = open_.try_emplace(StepId{reported.job, at.epoch, at.step});
  OpenStep& step = found->second;
  if (fresh) step = open_step(reported.plan);
  const auto rank = static_cast<std::size_t>(reported.rank);
  if (rank >= step.unseen.size() || !step.unseen[rank].at(at.microbatch)) return;
  step.unseen[rank][at.microbatch] = false;
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
