#include "costmodel/internal/correction.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace isocost {
namespace {

// What the profile's proportions are taken to be worth: each term within 50 %.
constexpr double kPriorError = 0.5;
// Measurements beyond this many typical errors are clipped to it.
constexpr double kClip = 4;
// Steps of the running median: a burst of three outliers moves it by 15 %.
constexpr double kErrorStep = 1.05;
constexpr double kSmallestError = 0.005;
constexpr double kLargestError = 1.0;
// While warming up, a measurement further than this from the median scale is taken for an outlier.
constexpr double kWarmUpClip = 4;

TermVector terms_of(const ModuleLoad& load) {
  return {1, static_cast<double>(load.sequences), static_cast<double>(load.units),
          static_cast<double>(load.units_squared)};
}

double dot(const TermVector& x, const TermVector& y) {
  return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3];
}

TermVector vector_of(const ModuleCoefficients& c) {
  return {c.per_microbatch, c.per_sequence, c.per_unit, c.per_unit_squared};
}

ModuleCoefficients coefficients_of(const TermVector& v) { return {v[0], v[1], v[2], v[3]}; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Correction::Correction(const ModuleCoefficients& profile, double half_life, double prior_strength)
    : profile_(vector_of(profile)),
      decay_(std::exp2(-1 / half_life)),
      prior_strength_(prior_strength),
      coefficients_(profile) {}

double Correction::predicted(const TermVector& terms) const {
  return dot(vector_of(coefficients_), terms);
}

void Correction::observe(const ModuleLoad& load, double seconds) {
  const TermVector terms = terms_of(load);
  if (warming_) {
    first_.push_back({terms, seconds});
    warm_up();
    if (first_.size() == kWarmUp) finish_warm_up();
    return;
  }
  const double expected = predicted(terms);
  double divisor = seconds;
  if (expected > 0) {
    track_error(std::abs(seconds / expected - 1));
    const double limit = 1 + kClip * typical_error_;
    const double clipped = std::clamp(seconds, expected / limit, expected * limit);
    if (restarted(clipped != seconds, {terms, seconds})) return;
    seconds = clipped;
    // Dividing by the prediction leaves the noise of the measurement out of its weight; far off,
    // the measurement is the better guess of its own size.
    divisor = seconds > 2 * expected || expected > 2 * seconds ? seconds : expected;
  }
  accumulate(terms, seconds, divisor);
  solve();
}

// Outliers come alone. Where many measurements in a row are clipped the model has changed: the
// evidence is forgotten, and those measurements begin a new warm-up from what was known last.
bool Correction::restarted(bool clipped, const Row& row) {
  if (!clipped) {
    first_.clear();
    return false;
  }
  first_.push_back(row);
  if (first_.size() < kRestart) return false;
  profile_ = vector_of(coefficients_);
  warming_ = true;
  warm_up();
  return true;
}

// Refits all measurements so far. The scale is the median ratio to the profile.
void Correction::warm_up() {
  std::vector<double> ratios;
  for (const Row& row : first_) {
    const double expected = dot(profile_, row.terms);
    if (expected > 0) ratios.push_back(row.seconds / expected);
  }
  scale_ = ratios.empty() ? 1 : median(std::move(ratios));
  typical_error_ = kPriorError;
  a_ = {};
  b_ = {};
  weight_ = 0;
  for (const Row& row : first_) {
    const double expected = scale_ * dot(profile_, row.terms);
    const double seconds =
        expected > 0 ? std::clamp(row.seconds, expected / kWarmUpClip, expected * kWarmUpClip)
                     : row.seconds;
    accumulate(row.terms, seconds, seconds);
  }
  if (first_.size() > kTermCount) typical_error_ = 0.1;
  solve();
}

void Correction::finish_warm_up() {
  std::vector<double> errors;
  for (const Row& row : first_) {
    const double expected = predicted(row.terms);
    errors.push_back(expected > 0 ? std::abs(row.seconds / expected - 1) : kPriorError);
  }
  // Errors of a fit to few points flatter; twice the median is closer to what comes.
  typical_error_ = std::clamp(2 * median(std::move(errors)), 4 * kSmallestError, kPriorError);
  warming_ = false;
  first_.clear();
}

void Correction::accumulate(const TermVector& terms, double seconds, double divisor) {
  const double weight = 1 / (divisor * divisor);
  for (std::size_t i = 0; i < kTermCount; ++i) {
    for (std::size_t j = 0; j < kTermCount; ++j) {
      a_[i][j] = decay_ * a_[i][j] + weight * terms[i] * terms[j];
    }
    b_[i] = decay_ * b_[i] + weight * terms[i] * seconds;
  }
  weight_ = decay_ * weight_ + 1;
}

void Correction::track_error(double relative_error) {
  typical_error_ *= relative_error > typical_error_ ? kErrorStep : 1 / kErrorStep;
  typical_error_ = std::clamp(typical_error_, kSmallestError, kLargestError);
}

// Solves in units of each term's typical share of a microbatch, where all terms are near one: that
// conditions the system, and there the prior is one ridge for all terms. Its weight follows from
// the errors' sizes: a profile within 50 % against measurements within `typical_error_`.
void Correction::solve() {
  const double ratio = typical_error_ / kPriorError;
  const double ridge = std::max(prior_strength_ * ratio * ratio, 1e-9 * weight_);
  TermVector unit{};
  for (std::size_t i = 0; i < kTermCount; ++i) unit[i] = std::sqrt(a_[i][i] / weight_);
  TermMatrix a{};
  TermVector b{};
  for (std::size_t i = 0; i < kTermCount; ++i) {
    for (std::size_t j = 0; j < kTermCount; ++j) {
      a[i][j] = unit[i] > 0 && unit[j] > 0 ? a_[i][j] / (unit[i] * unit[j]) : 0;
    }
    a[i][i] += ridge;
    b[i] = (unit[i] > 0 ? b_[i] / unit[i] : 0) + ridge * scale_ * profile_[i] * unit[i];
  }
  TermVector solution = solve_non_negative(a, b);
  for (std::size_t i = 0; i < kTermCount; ++i) {
    // A term that was never seen keeps the profile's proportion.
    solution[i] = unit[i] > 0 ? solution[i] / unit[i] : scale_ * profile_[i];
  }
  coefficients_ = coefficients_of(solution);
}

}  // namespace isocost
