#include "costmodel/predictor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "costmodel/internal/curve_fit.h"
#include "costmodel/internal/launch_fit.h"
#include "costmodel/profile.h"
#include "costmodel/shape_bucket.h"

namespace isocost {
namespace {

constexpr double kUncertaintyOfStated = 0.5;
constexpr double kUncertaintyPerOctave = 0.1;

// Returns the seconds of one sequence by the form, without fixed seconds.
double form(const ModuleCoefficients& c, double length) {
  return c.per_sequence + (c.per_unit + c.per_unit_squared * length) * length;
}

}  // namespace

Seconds predict(const ModuleCoefficients& coefficients, const ModuleLoad& load) {
  if (load.sequences == 0 && load.units == 0) return Seconds{0};
  return Seconds{coefficients.per_microbatch +
                 coefficients.per_sequence * static_cast<double>(load.sequences) +
                 coefficients.per_unit * static_cast<double>(load.units) +
                 coefficients.per_unit_squared * static_cast<double>(load.units_squared)};
}

std::string_view price_origin_name(PriceOrigin origin) {
  constexpr std::string_view kNames[] = {"stated", "measured", "interpolated", "extrapolated"};
  return kNames[static_cast<std::size_t>(origin)];
}

ModulePredictor::ModulePredictor(const ModuleProfile& profile)
    : coefficients_(profile.coefficients) {
  if (profile.points.empty()) return;
  const LaunchFit fit = fit_launches(profile.points, coefficients_);
  launches_s_ = fit.launches_s;
  coefficients_ = fit.form;
  for (const ProfilePoint& point : profile.points) {
    log_lengths_.push_back(std::log2(typical_length(point.load)));
  }
  std::sort(log_lengths_.begin(), log_lengths_.end());
  ModuleCurves curves = fit_curves(fit.points, coefficients_);
  sequence_ = std::move(curves.sequence);
  batch_ = std::move(curves.batch);
  double squares = 0;
  for (const ProfilePoint& point : profile.points) {
    const double miss = microbatch(point.load) / point.seconds() - 1;
    squares += miss * miss + point.spread * point.spread;
    most_units_ = std::max(most_units_, static_cast<double>(point.load.units));
  }
  error_ = std::sqrt(squares / static_cast<double>(profile.points.size()));
}

double ModulePredictor::sample(const ModuleLoad& load) const {
  if (load.sequences == 0 && load.units == 0) return 0;
  ModuleCoefficients without_fixed = coefficients_;
  without_fixed.per_microbatch = 0;
  const double by_form = predict(without_fixed, load).count();
  const double length = typical_length(load);
  const auto& knots = sequence_.knots();
  if (knots.empty() || length <= 0) return by_form;
  const double known =
      std::clamp(length, std::exp2(knots.front().log_x), std::exp2(knots.back().log_x));
  const double of_form = form(coefficients_, known);
  const double measured = sequence_.at(known);
  if (of_form > 0) return by_form * measured / of_form;
  return measured * static_cast<double>(load.units) / length;
}

double ModulePredictor::of_samples(const ModuleLoad& load, double samples) const {
  return samples * batch_.at(static_cast<double>(std::max<std::int64_t>(load.units, 1)));
}

double ModulePredictor::microbatch(const ModuleLoad& load, double samples) const {
  if (load.sequences == 0 && load.units == 0) return 0;
  return std::max(launches_s_, coefficients_.per_microbatch + of_samples(load, samples));
}

double ModulePredictor::octaves_beyond(const ModuleLoad& load) const {
  const double length = typical_length(load);
  if (log_lengths_.empty() || length <= 0) return 0;
  const double log_length = std::log2(length);
  const double by_length =
      std::max({0.0, log_lengths_.front() - log_length, log_length - log_lengths_.back()});
  const double by_units = std::log2(static_cast<double>(load.units) / most_units_);
  return std::max(by_length, by_units);
}

PriceOrigin ModulePredictor::origin(const ModuleLoad& load) const {
  constexpr double kSame = 1e-9;
  if (most_units_ == 0) return PriceOrigin::kStated;
  if (octaves_beyond(load) > kSame) return PriceOrigin::kExtrapolated;
  const double log_length = std::log2(std::max(typical_length(load), 1.0));
  const bool known = std::any_of(log_lengths_.begin(), log_lengths_.end(),
                                 [&](double own) { return std::abs(own - log_length) < kSame; });
  return known ? PriceOrigin::kMeasured : PriceOrigin::kInterpolated;
}

double ModulePredictor::uncertainty(const ModuleLoad& load) const {
  if (origin(load) == PriceOrigin::kStated) return kUncertaintyOfStated;
  return error_ + kUncertaintyPerOctave * octaves_beyond(load);
}

}  // namespace isocost
