#include "costmodel/internal/module_correction.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "costmodel/internal/robust.h"

namespace isocost {
namespace {

constexpr std::size_t kColdRows = 64;
constexpr double kFirstNoise = 0.1;
constexpr double kSmallestNoise = 0.005;
constexpr double kLargestNoise = 0.5;
// Rows count at most as this many deviations off.
constexpr double kClip = 3;
// A profile that is right but for noise and some buckets stays the scale; others are rescaled.
constexpr double kScaleTolerance = 1.25;
// Deviations that chance reaches: one factor in 370 by mere luck, and then by little.
constexpr double kChance = 3;
// Of rows that were clipped, to one side, before a bucket counts as changed.
constexpr double kChangedBucket = 0.5;
constexpr double kOffMemory = 1.0 / 8;
constexpr int kDriftSteps = 3;
constexpr double kSmallestDrift = 0.05;

double dot(std::span<const Share> shares, const FactorVector& factors) {
  double sum = 0;
  for (const Share& share : shares) sum += share.share * factors[share.factor];
  return sum;
}

// The factor that half of the evidence lies below: unmoved by one bucket that errs.
double common_factor(const Evidence& evidence, const FactorVector& factors) {
  std::array<std::size_t, kFactors> order{};
  std::size_t size = 0;
  double total = 0;
  for (std::size_t k = 1; k < kFactors; ++k) {
    if (!evidence.seen(k)) continue;
    order[size++] = k;
    total += evidence.b[k] * factors[k];
  }
  if (size == 0) return factors[kFixed];
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(size),
            [&](std::size_t i, std::size_t j) { return factors[i] < factors[j]; });
  double below = 0;
  for (std::size_t i = 0; i < size; ++i) {
    below += evidence.b[order[i]] * factors[order[i]];
    if (2 * below >= total) return factors[order[i]];
  }
  return factors[order[size - 1]];
}

}  // namespace

ModuleCorrection::ModuleCorrection(double half_life)
    : keep_(std::exp2(-1 / half_life)), noise_(kFirstNoise) {
  prior_.fill(1);
  learnt_.fill(1);
  published_.fill(1);
}

double ModuleCorrection::learnt_ratio(std::span<const Share> shares) const {
  return dot(shares, learnt_);
}

double ModuleCorrection::published_ratio(std::span<const Share> shares) const {
  return dot(shares, published_);
}

bool ModuleCorrection::drifted(double median_ratio, std::size_t rows) {
  if (is_cold_ || rows == 0) return false;
  const double chance = 4 * 1.25 * noise_ / std::sqrt(static_cast<double>(rows));
  const bool off = std::abs(median_ratio - 1) > std::max(kSmallestDrift, chance);
  const int side = median_ratio > 1 ? 1 : -1;
  if (!off) {
    steps_off_ = 0;
  } else {
    steps_off_ = steps_off_ * side > 0 ? steps_off_ + side : side;
  }
  if (std::abs(steps_off_) < kDriftSteps) return false;
  steps_off_ = 0;
  prior_ = learnt_;
  is_cold_ = true;
  cold_.clear();
  off_.fill(0);
  return true;
}

void ModuleCorrection::learn(const Rows& step, std::span<const double> speeds) {
  if (step.rows.empty()) return;
  if (!is_cold_) return learn_warm(step, speeds);
  for (const Row& row : step.rows) {
    cold_.append(step, row);
    cold_.rows.back().ratio = row.ratio / speeds[static_cast<std::size_t>(row.rank)];
  }
  refit_cold();
  if (cold_.rows.size() < kColdRows) return;
  is_cold_ = false;
  cold_.clear();
}

// Three rounds: each finds the noise around the last fit, and clips by it.
void ModuleCorrection::refit_cold() {
  const auto ratios_to = [this](const FactorVector& factors) {
    scratch_.clear();
    for (const Row& row : cold_.rows) scratch_.push_back(row.ratio / dot(cold_.of(row), factors));
  };
  ratios_to(prior_);
  double scale = median(scratch_);
  if (scale < kScaleTolerance && scale > 1 / kScaleTolerance) scale = 1;
  FactorVector prior = prior_;
  for (double& factor : prior) factor *= scale;
  learnt_ = prior;
  Fit fit;
  for (int round = 0; round < 3; ++round) {
    ratios_to(learnt_);
    const double centre = median(scratch_);
    noise_ = std::clamp(robust_deviation(scratch_, centre), kSmallestNoise, kLargestNoise);
    // A fit to few rows flatters.
    if (cold_.rows.size() < kFactors) noise_ = std::max(noise_, kFirstNoise);
    evidence_ = {};
    for (const Row& row : cold_.rows) {
      const double expected = dot(cold_.of(row), learnt_);
      const double limit = kClip * noise_;
      const double target = std::clamp(row.ratio / expected, centre * (1 - std::min(limit, 0.9)),
                                       centre * (1 + limit));
      evidence_.add(cold_.of(row), expected, target);
    }
    fit = fit_factors(evidence_, prior, noise_);
    learnt_ = fit.factors;
  }
  if (cold_.rows.size() >= kColdRows) prior_ = prior;
  publish(fit);
}

void ModuleCorrection::learn_warm(const Rows& step, std::span<const double> speeds) {
  evidence_.forget(std::pow(keep_, static_cast<double>(step.rows.size())));
  scratch_.clear();
  for (const Row& row : step.rows) {
    const double expected = dot(step.of(row), learnt_);
    const double ratio = row.ratio / speeds[static_cast<std::size_t>(row.rank)];
    scratch_.push_back(ratio / expected);
    add_clipped(step, row, ratio, expected);
  }
  // A step has few rows: the noise follows slowly, and faster where there are many.
  const double weight = std::min(0.5, static_cast<double>(scratch_.size()) / 256);
  const double seen = robust_deviation(scratch_, 1);
  noise_ = std::clamp(noise_ + weight * (std::min(seen, 2 * noise_) - noise_), kSmallestNoise,
                      kLargestNoise);
  const Fit fit = fit_factors(evidence_, prior_, noise_);
  learnt_ = fit.factors;
  publish(fit);
}

void ModuleCorrection::add_clipped(const Rows& rows, const Row& row, double ratio,
                                   double expected) {
  const auto shares = rows.of(row);
  const double target = ratio / expected;
  const double limit = kClip * noise_;
  const double clipped = std::clamp(target, 1 / (1 + limit), 1 + limit);
  const double side = clipped == target ? 0 : (target > 1 ? 1 : -1);
  // Only what makes up most of a row can have thrown it that far.
  for (const Share& share : shares) {
    if (2 * share.share < 1) continue;
    double& off = off_[share.factor];
    off += kOffMemory * (side - off);
  }
  evidence_.add(shares, expected, side != 0 && changed_bucket(shares) ? target : clipped);
}

bool ModuleCorrection::changed_bucket(std::span<const Share> shares) const {
  return std::any_of(shares.begin(), shares.end(), [this](const Share& share) {
    return 2 * share.share >= 1 && std::abs(off_[share.factor]) > kChangedBucket;
  });
}

// What all buckets share first, then what is particular to each.
void ModuleCorrection::publish(const Fit& fit) {
  const double common = common_factor(evidence_, fit.factors);
  const double chance = kChance * 1.25 * noise_ * common / std::sqrt(evidence_.rows);
  const double shift = significant(common - 1, chance);
  const double centre = 1 + shift;
  for (std::size_t k = 0; k < kFactors; ++k) {
    const double deviation = fit.factors[k] / centre - 1;
    published_[k] = centre * (1 + significant(deviation, kChance * fit.deviations[k] / centre));
  }
  for (std::size_t k = 1; k < kFactors; ++k) {
    if (evidence_.seen(k)) continue;
    published_[k] = centre;
  }
  if (!evidence_.seen(kFixed)) published_[kFixed] = centre;
}

ModuleCorrection::Saved ModuleCorrection::save() const {
  return {prior_, learnt_, published_, evidence_, noise_};
}

void ModuleCorrection::restore(const Saved& saved) {
  prior_ = saved.prior;
  learnt_ = saved.learnt;
  published_ = saved.published;
  evidence_ = saved.evidence;
  noise_ = saved.noise;
  is_cold_ = evidence_.rows < static_cast<double>(kColdRows) / 2;
  cold_.clear();
  off_.fill(0);
  steps_off_ = 0;
}

}  // namespace isocost
