#include "costmodel/internal/correction.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "costmodel/internal/robust.h"

namespace isocost {
namespace {

// With the gate shut, one step in so many is learned from: a profile may cease to be exact little
// by little. What happens at once, to a module or a rank, is seen in every step.
constexpr std::int64_t kIdleStride = 4;
// A module that is off by less is taken for what it was, without asking the ranks one by one.
constexpr double kNearlyUsual = 0.03;

}  // namespace

Correction::Correction(const std::array<ModuleProfile, kModules>& profile,
                       const CorrectionOptions& options)
    : options_(options), gate_(options.least_gain) {
  for (const ModuleProfile& module : profile) {
    modules_.emplace_back(module.coefficients, options.half_life);
  }
}

void Correction::take(const MeasuredStep& step, double own_seconds) {
  const std::int64_t started = options_.clock ? options_.clock() : 0;
  ++steps_;
  judge_modules(step);
  judge_ranks(step);
  if (gate_.on() || steps_ % kIdleStride == 0) learn(step);
  // The gate takes a running mean, for which every other step is enough.
  if (steps_ % 2 == 1) last_gain_ = gain_of(step);
  if (options_.clock) own_seconds += static_cast<double>(options_.clock() - started) * 1e-9;
  gate_.take(last_gain_, step_seconds_ > 0 ? own_seconds / step_seconds_ : 0, settled());
}

bool Correction::settled() const {
  return std::none_of(modules_.begin(), modules_.end(),
                      [](const ModuleCorrection& module) { return module.learning_anew(); });
}

void Correction::judge_modules(const MeasuredStep& step) {
  for (std::size_t m = 0; m < kModules; ++m) {
    everywhere_.at(m) = everywhere(step.modules.at(m));
    if (!modules_[m].drifted(everywhere_.at(m), ratios_.size())) continue;
    ++drifts_;
    reprofile_ = true;
    gate_.open();
  }
}

// What has become of a module on all ranks, from some of its rows, which stay in `ratios_`. Where
// that is more than nothing, the ranks speak, each with one voice: half of them, slowed down, have
// half of the rows.
double Correction::everywhere(const Rows& rows) {
  ratios_.clear();
  scratch_.clear();
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const Row& row = rows.rows[i];
    ranks_.grow(static_cast<std::size_t>(row.rank) + 1);
    if (!is_sampled(i, rows.rows.size())) continue;
    const double slowdown = ranks_.cost_model_state()[static_cast<std::size_t>(row.rank)];
    ratios_.push_back({row.rank, row.ratio / (row.cost_model_state * slowdown)});
    scratch_.push_back(ratios_.back().ratio);
  }
  const double of_rows = median_near(scratch_, 1);
  if (std::abs(of_rows - 1) < kNearlyUsual) return of_rows;
  scratch_.clear();
  for (const RankMedian& rank : medians_by_rank(ratios_)) scratch_.push_back(rank.ratio);
  return median_near(scratch_, 1);
}

// Seconds of whole microbatches: what one module does to all ranks is taken out first.
void Correction::judge_ranks(const MeasuredStep& step) {
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
      total.expected += row.profile_s * row.cost_model_state * everywhere_.at(m);
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
      modules_[m].learn(rows, ranks_.cost_model_state());
      continue;
    }
    Rows trusted;
    for (const Row& row : rows.rows) {
      if (!ranks_.in_doubt(row.rank)) trusted.append(rows, row);
    }
    modules_[m].learn(trusted, ranks_.cost_model_state());
  }
}

// Where ranks are level by corrected costs they are not by the profile's, and the other way round:
// how far they are apart is what the better prices are worth.
double Correction::gain_of(const MeasuredStep& step) {
  struct RankSeconds {
    double profile = 0;
    double corrected = 0;
    double measured = 0;
  };
  std::vector<RankSeconds> ranks(ranks_.cost_model_state().size());
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
  status.on = gate_.on();
  status.gain = gate_.gain();
  status.overhead = gate_.overhead();
  status.drifts = drifts_;
  status.reprofile_suggested = reprofile_;
  status.rank_slowdowns.assign(rank_slowdowns().begin(), rank_slowdowns().end());
  for (std::size_t m = 0; m < kModules; ++m) {
    status.modules.at(m).fixed = factors(m)[kFixed];
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      status.modules.at(m).buckets.at(b) = factors(m)[factor_of_bucket(b)];
    }
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
  gate_ = Gate(options_.least_gain);
}

}  // namespace isocost
