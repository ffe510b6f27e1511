#include "costmodel/internal/module_correction.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "base/statistics.h"
#include "costmodel/internal/form_fit.h"
#include "costmodel/internal/robust_statistics.h"

namespace isocost {
namespace {

constexpr std::size_t kColdRows = 96;
constexpr double kFirstRowNoise = 0.1;
constexpr double kSmallestRowNoise = 0.005;
constexpr double kLargestRowNoise = 0.5;
// Limits in deviations: a row counts as at most kClip deviations off; beyond kDrop deviations it
// does not count.
constexpr double kClip = 3;
constexpr double kDrop = 8;
// Factor within which a profile's scale is kept as the prior; other profiles are rescaled.
constexpr double kScaleTolerance = 1.5;
// Factor beyond which a row is ignored in the cold phase, because alone in its bucket it would
// determine the fit. If the bucket really is that far off, more rows will follow.
constexpr double kFarOff = 4;
// Deviations (in standard deviations) that chance explains, given many buckets and steps.
constexpr double kChanceOfBucket = 4.5;
// Deviations that chance explains for a prior that was fitted to few rows, which is less reliable
// than a profile.
constexpr double kChanceOfFit = 2;
// Part of a bucket's rows that are clipped on the same side before the bucket counts as changed.
constexpr double kChangedBucket = 0.5;
constexpr double kOffMemory = 1.0 / 8;
constexpr int kRounds = 8;

double dot(std::span<const Share> shares, const FactorVector& factors) {
  double sum = 0;
  for (const Share& share : shares) sum += share.share * factors[share.factor];
  return sum;
}

// The median of the buckets' factors, which they have in common. Each bucket counts equally, so
// that one wrong bucket does not affect the others, however large its part of the load. Of two
// middle values, the one nearer to one is used. Buckets with uncertain factors are ignored.
struct Common {
  double factor = 1;
  double deviation = 0;
};
Common common_factor(const Fit& fit) {
  constexpr double kVague = 4;
  const double sharpest = *std::min_element(fit.deviations.begin() + 1, fit.deviations.end());
  if (!std::isfinite(sharpest)) return {fit.factors[kFixed], fit.deviations[kFixed]};
  std::array<double, kFactors> known{};
  std::size_t size = 0;
  double deviations = 0;
  for (std::size_t k = 1; k < kFactors; ++k) {
    if (fit.deviations[k] > kVague * sharpest) continue;
    known[size++] = fit.factors[k];
    deviations += fit.deviations[k];
  }
  // The deviations are not divided by the square root of the size, because the errors may be
  // correlated, for example with the fixed seconds.
  return {median_near({known.data(), size}, 1), deviations / static_cast<double>(size)};
}

}  // namespace

ModuleCorrection::ModuleCorrection(const ModuleCoefficients& profile, double half_life)
    : profile_(profile), keep_(std::exp2(-1 / half_life)), noise_(kFirstRowNoise) {
  prior_.fill(1);
  learned_.fill(1);
  published_.fill(1);
}

double ModuleCorrection::learned_ratio(std::span<const Share> shares) const {
  return dot(shares, learned_);
}

double ModuleCorrection::published_ratio(std::span<const Share> shares) const {
  return dot(shares, published_);
}

bool ModuleCorrection::drifted(double median_ratio, std::size_t rows) {
  if (is_cold_ || !drift_.take(median_ratio, rows, noise_)) return false;
  prior_ = published_;
  noise_before_drift_ = noise_;
  is_cold_ = true;
  cold_.clear();
  off_.fill(0);
  return true;
}

void ModuleCorrection::learn(const Rows& step, std::span<const double> slowdowns) {
  if (step.rows.empty()) return;
  if (!is_cold_) return learn_warm(step, slowdowns);
  for (const Row& row : step.rows) {
    cold_.append(step, row);
    cold_.rows.back().ratio = row.ratio / slowdowns[static_cast<std::size_t>(row.rank)];
  }
  refit_cold();
  if (cold_.rows.size() < kColdRows) return;
  is_cold_ = false;
  cold_.clear();
}

std::size_t ModuleCorrection::seen_factors() const {
  std::size_t seen = 0;
  for (std::size_t k = 0; k < kFactors; ++k) seen += evidence_.seen(k) ? 1U : 0U;
  return seen;
}

double ModuleCorrection::cold_deviation(const FactorVector& factors) {
  scratch_.clear();
  for (const Row& row : cold_.rows) scratch_.push_back(row.ratio / dot(cold_.of(row), factors));
  return robust_deviation(scratch_, 1);
}

// Returns the prior of the cold phase: the known factors if their scale is about right (after a
// drift, times the significant part of the scale); else the known factors times the scale, or the
// profile's form with newly fitted weights if that fits clearly better.
FactorVector ModuleCorrection::cold_prior() {
  scratch_.clear();
  for (const Row& row : cold_.rows) scratch_.push_back(row.ratio / dot(cold_.of(row), prior_));
  const double scale = median(scratch_);
  const bool is_near = scale < kScaleTolerance && scale > 1 / kScaleTolerance;
  if (is_near && noise_before_drift_ == 0) return prior_;
  FactorVector scaled = prior_;
  if (is_near) {
    const double chance = kChanceOfBucket * kMedianDeviation * noise_before_drift_ /
                          std::sqrt(static_cast<double>(cold_.rows.size()));
    for (double& factor : scaled) factor *= 1 + significant(scale - 1, chance);
    return scaled;
  }
  for (double& factor : scaled) factor *= scale;
  scratch_.clear();
  for (const Row& row : cold_.rows) scratch_.push_back(row.ratio);
  const FactorVector anew = fit_form_factors(cold_, profile_, median(scratch_), kFarOff);
  constexpr double kClearly = 0.6;
  fitted_ = cold_deviation(anew) < kClearly * cold_deviation(scaled);
  return fitted_ ? anew : scaled;
}

// Refits the cold phase in rounds, each of which estimates the noise around the last fit and clips
// rows by it. Systematic deviations come into range over the rounds, because similar rows deviate
// in the same direction.
void ModuleCorrection::refit_cold() {
  const FactorVector prior = cold_prior();
  learned_ = prior;
  Fit fit;
  for (int round = 0; round < kRounds; ++round) {
    scratch_.clear();
    for (const Row& row : cold_.rows) {
      scratch_.push_back(row.ratio / dot(cold_.of(row), learned_));
    }
    const double centre = median(scratch_);
    // A fit to few rows underestimates the noise.
    const auto rows = static_cast<double>(cold_.rows.size());
    const double spare = rows - static_cast<double>(seen_factors());
    const double inflation = spare > 0 ? std::sqrt(rows / spare) : 1;
    noise_ = std::clamp(robust_deviation(scratch_, centre) * inflation, kSmallestRowNoise,
                        kLargestRowNoise);
    if (cold_.rows.size() < kFactors) noise_ = std::max(noise_, kFirstRowNoise);
    evidence_ = {};
    for (const Row& row : cold_.rows) {
      const double far = row.ratio / dot(cold_.of(row), prior);
      if (far > kFarOff || far < 1 / kFarOff) continue;
      const double expected = dot(cold_.of(row), learned_);
      const double limit = kClip * noise_;
      const double target = std::clamp(row.ratio / expected, centre * (1 - std::min(limit, 0.9)),
                                       centre * (1 + limit));
      evidence_.add(cold_.of(row), prior, expected, target);
    }
    fit = fit_factors(evidence_, prior, noise_);
    learned_ = fit.factors;
  }
  // Few rows determine the scale, but not the individual buckets.
  published_ = prior;
  if (cold_.rows.size() < kColdRows) return;
  prior_ = prior;
  publish(fit);
}

void ModuleCorrection::learn_warm(const Rows& step, std::span<const double> slowdowns) {
  evidence_.forget(std::pow(keep_, static_cast<double>(step.rows.size())));
  scratch_.clear();
  const double limit = kClip * noise_;
  const Limits limits{1 / (1 + limit), 1 + limit, 1 / (1 + kDrop * noise_), 1 + kDrop * noise_};
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const Row& row = step.rows[i];
    const double target = row.ratio / (row.learned * slowdowns[static_cast<std::size_t>(row.rank)]);
    if (is_sampled(i, step.rows.size())) scratch_.push_back(target);
    add_clipped(step.of(row), row.learned, target, limits);
  }
  // A step has few rows, so the noise follows slowly; it follows faster with more rows.
  const double weight = std::min(0.5, static_cast<double>(scratch_.size()) / 256);
  const double seen = robust_deviation(scratch_, 1);
  noise_ = std::clamp(noise_ + weight * (std::min(seen, 2 * noise_) - noise_), kSmallestRowNoise,
                      kLargestRowNoise);
  const Fit fit = fit_factors(evidence_, prior_, noise_);
  learned_ = fit.factors;
  publish(fit);
}

void ModuleCorrection::add_clipped(std::span<const Share> shares, double expected, double target,
                                   const Limits& limits) {
  const double clipped = std::clamp(target, limits.clip_below, limits.clip_above);
  const double side = clipped == target ? 0 : (target > 1 ? 1 : -1);
  // Only a bucket that makes up most of a row can explain such a deviation.
  for (const Share& share : shares) {
    if (2 * share.share < 1) continue;
    double& off = off_[share.factor];
    off += kOffMemory * (side - off);
  }
  if (side != 0 && changed_bucket(shares)) {
    evidence_.add(shares, prior_, expected, target);
  } else if (target >= limits.drop_below && target <= limits.drop_above) {
    evidence_.add(shares, prior_, expected, clipped);
  }
}

bool ModuleCorrection::changed_bucket(std::span<const Share> shares) const {
  return std::any_of(shares.begin(), shares.end(), [this](const Share& share) {
    return 2 * share.share >= 1 && std::abs(off_[share.factor]) > kChangedBucket;
  });
}

// Publishes the significant part that all buckets share, then that of each bucket.
void ModuleCorrection::publish(const Fit& fit) {
  Fit relative = fit;
  for (std::size_t k = 0; k < kFactors; ++k) {
    relative.factors[k] /= prior_[k];
    relative.deviations[k] /= prior_[k];
  }
  const double chance = fitted_ ? kChanceOfFit : kChanceOfBucket;
  const Common common = common_factor(relative);
  const double centre = 1 + significant(common.factor - 1, chance * common.deviation);
  for (std::size_t k = 0; k < kFactors; ++k) {
    published_[k] = prior_[k] * centre;
    if (!evidence_.seen(k)) continue;
    const double deviation = relative.factors[k] / centre - 1;
    published_[k] *= 1 + significant(deviation, chance * relative.deviations[k] / centre);
  }
}

// Returns the state to save. In the cold phase, the rows are not saved, and the evidence is in
// units of a prior that the next step replaces. The published factors hold all that is known so
// far.
ModuleCorrection::Saved ModuleCorrection::save() const {
  if (is_cold_) return {published_, published_, published_, {}, noise_, fitted_};
  return {prior_, learned_, published_, evidence_, noise_, fitted_};
}

void ModuleCorrection::restore(const Saved& saved) {
  prior_ = saved.prior;
  learned_ = saved.learned;
  published_ = saved.published;
  evidence_ = saved.evidence;
  noise_ = saved.noise;
  fitted_ = saved.fitted;
  is_cold_ = evidence_.rows == 0;
  noise_before_drift_ = 0;
  cold_.clear();
  off_.fill(0);
  drift_.restart();
}

}  // namespace isocost
