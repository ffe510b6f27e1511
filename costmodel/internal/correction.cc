#include "costmodel/internal/correction.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "costmodel/internal/robust_statistics.h"

namespace isocost {
namespace {

// While paused, correction learns from one step in four at most, because a profile may become
// inexact gradually. Sudden changes of a module or a rank are detected in every measured step.
constexpr std::int64_t kPausedStride = 4;
// Deviation of a module's median below which it has not changed, so that ranks are not compared.
constexpr double kNearlyUsual = 0.03;

double penalty_of(const std::array<double, kShapeBuckets>& factors) {
  std::array<double, kShapeBuckets> sorted = factors;
  std::ranges::sort(sorted);
  const double median = sorted.at(kShapeBuckets / 2);
  return median > 0 ? sorted.back() / median : 1;
}

}  // namespace

void MeasuredStep::add_measuring(std::int32_t rank, double seconds) {
  if (!is_module_time(seconds)) return;
  const auto at = static_cast<std::size_t>(rank);
  if (at >= measuring_s.size()) measuring_s.resize(at + 1);
  measuring_s[at] += seconds;
}

void MeasuredStep::clear() {
  microbatches = 0;
  for (Rows& rows : modules) rows.clear();
  measuring_s.clear();
}

Correction::Correction(const std::array<ModuleCoefficients, kModules>& profile,
                       const CorrectionOptions& options)
    : options_(options), pause_control_(options.least_gain) {
  for (const ModuleCoefficients& module : profile) {
    modules_.emplace_back(module, options.half_life);
  }
}

void Correction::take(const MeasuredStep& step, double own_seconds) {
  const std::int64_t started = options_.clock ? options_.clock() : 0;
  ++steps_;
  detect_drift(step);
  update_rank_slowdowns(step);
  if (!pause_control_.paused() || steps_ % kPausedStride == 0 ||
      step.step >= learned_step_ + std::uint64_t{kPausedStride}) {
    learned_step_ = step.step;
    learn(step);
  }
  // The gain enters a running mean, for which every other step suffices, unless few are measured.
  if (pause_control_.paused() || steps_ % 2 == 1) last_gain_ = gain_of(step);
  if (options_.clock) own_seconds += static_cast<double>(options_.clock() - started) * 1e-9;
  // The slowest rank delays the step.
  const double measuring_s =
      step.measuring_s.empty() ? 0 : *std::ranges::max_element(step.measuring_s);
  PauseControl::Estimates estimates{.gain = last_gain_, .settled = settled()};
  if (step_seconds_ > 0) {
    estimates.measuring = measuring_s / step_seconds_;
    estimates.learning = own_seconds / step_seconds_;
  }
  pause_control_.take(estimates);
  seems_changed_ = seems_changed();
}

// Returns whether the last step was unlike what was learned. Later ones show whether this stays.
bool Correction::seems_changed() const {
  return ranks_.any_in_doubt() || std::ranges::any_of(modules_, &ModuleCorrection::may_be_drifting);
}

bool Correction::settled() const {
  return std::none_of(modules_.begin(), modules_.end(),
                      [](const ModuleCorrection& module) { return module.learning_anew(); });
}

void Correction::detect_drift(const MeasuredStep& step) {
  for (std::size_t m = 0; m < kModules; ++m) {
    median_ratios_.at(m) = median_ratio(step.modules.at(m));
    if (!modules_[m].drifted(median_ratios_.at(m), ratios_.size())) continue;
    ++drifts_;
    reprofile_ = true;
    pause_control_.resume();
  }
}

// Returns the median over a sample of a module's rows of measured over learned seconds; the sample
// remains in `ratios_`. If the median is not near one, returns the median over the ranks instead: a
// slowdown of half of the ranks affects half of the rows.
double Correction::median_ratio(const Rows& rows) {
  ratios_.clear();
  scratch_.clear();
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const Row& row = rows.rows[i];
    ranks_.grow(static_cast<std::size_t>(row.rank) + 1);
    if (!is_sampled(i, rows.rows.size())) continue;
    const double slowdown = ranks_.learned()[static_cast<std::size_t>(row.rank)];
    ratios_.push_back({row.rank, row.ratio / (row.learned * slowdown)});
    scratch_.push_back(ratios_.back().ratio);
  }
  const double of_rows = median_near(scratch_, 1);
  if (std::abs(of_rows - 1) < kNearlyUsual) return of_rows;
  scratch_.clear();
  for (const RankMedian& rank : medians_by_rank(ratios_)) scratch_.push_back(rank.ratio);
  return median_near(scratch_, 1);
}

// Compares seconds of whole microbatches, after removing each module's change on all ranks.
void Correction::update_rank_slowdowns(const MeasuredStep& step) {
  struct Total {
    std::int32_t rank = -1;
    double measured = 0;
    double expected = 0;
  };
  std::vector<Total> totals(step.microbatches);
  for (std::size_t m = 0; m < kModules; ++m) {
    const Rows& rows = step.modules.at(m);
    for (const Row& row : rows.rows) {
      Total& total = totals[row.microbatch];
      total.rank = row.rank;
      total.measured += row.ratio * row.profile_s;
      total.expected += row.profile_s * row.learned * median_ratios_.at(m);
    }
  }
  ratios_.clear();
  for (const Total& total : totals) {
    if (total.expected > 0) ratios_.push_back({total.rank, total.measured / total.expected});
  }
  ranks_.take(ratios_);
}

void Correction::learn(const MeasuredStep& step) {
  for (std::size_t m = 0; m < kModules; ++m) {
    const Rows& rows = step.modules.at(m);
    const bool doubt = std::any_of(rows.rows.begin(), rows.rows.end(),
                                   [this](const Row& row) { return ranks_.in_doubt(row.rank); });
    if (!doubt) {
      modules_[m].learn(rows, ranks_.learned());
      continue;
    }
    Rows trusted;
    for (const Row& row : rows.rows) {
      if (!ranks_.in_doubt(row.rank)) trusted.append(rows, row);
    }
    modules_[m].learn(trusted, ranks_.learned());
  }
}

// Ranks that are balanced by corrected costs are not balanced by the profile's costs. The
// difference is the step time that the better costs save.
double Correction::gain_of(const MeasuredStep& step) {
  struct RankSeconds {
    double profile = 0;
    double corrected = 0;
    double measured = 0;
  };
  std::vector<RankSeconds> ranks(ranks_.learned().size());
  RankSeconds total;
  for (std::size_t m = 0; m < kModules; ++m) {
    const Rows& rows = step.modules.at(m);
    for (const Row& row : rows.rows) {
      const auto rank = static_cast<std::size_t>(row.rank);
      ranks[rank].profile += row.profile_s;
      ranks[rank].corrected +=
          row.profile_s * modules_[m].published_ratio(rows.of(row)) * ranks_.published()[rank];
      ranks[rank].measured += row.profile_s * row.ratio;
    }
  }
  double slowest = 0;
  double worst = 0;
  for (const RankSeconds& rank : ranks) {
    total.profile += rank.profile;
    total.corrected += rank.corrected;
    slowest = std::max(slowest, rank.measured);
    if (rank.profile > 0) worst = std::max(worst, rank.corrected / rank.profile);
  }
  if (total.profile <= 0 || total.corrected <= 0) return 0;
  const double weight = std::max(1.0 / 16, 1 / static_cast<double>(steps_));
  step_seconds_ += weight * (slowest - step_seconds_);
  return worst * total.profile / total.corrected - 1;
}

CorrectionStatus Correction::status() const {
  CorrectionStatus status;
  status.on = !pause_control_.paused();
  status.gain = pause_control_.gain();
  status.overhead = pause_control_.overhead();
  status.measuring = pause_control_.measuring();
  status.drifts = drifts_;
  status.reprofile_suggested = reprofile_;
  status.rank_slowdowns.assign(rank_slowdowns().begin(), rank_slowdowns().end());
  for (std::size_t m = 0; m < kModules; ++m) {
    status.modules.at(m).fixed = factors(m)[kFixed];
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      status.modules.at(m).buckets.at(b) = factors(m)[factor_of_bucket(b)];
    }
    status.modules.at(m).penalty = penalty_of(status.modules.at(m).buckets);
    status.modules.at(m).noise = modules_[m].noise();
    status.modules.at(m).drifts = modules_[m].drifts();
    status.modules.at(m).drift_ratio = modules_[m].drift_ratio();
  }
  return status;
}

Correction::Saved Correction::save() const {
  Saved saved;
  for (std::size_t m = 0; m < kModules; ++m) saved.modules.at(m) = modules_[m].save();
  saved.reprofile = reprofile_;
  return saved;
}

void Correction::restore(const Saved& saved) {
  for (std::size_t m = 0; m < kModules; ++m) modules_[m].restore(saved.modules.at(m));
  reprofile_ = saved.reprofile;
  pause_control_ = PauseControl(options_.least_gain);
}

}  // namespace isocost
