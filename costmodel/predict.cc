#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "costmodel/internal/nnls.h"
#include "costmodel/predictor.h"
#include "costmodel/profile.h"
#include "costmodel/shape_bucket.h"

namespace isocost {
namespace {

constexpr double kUncertaintyOfStated = 0.5;
constexpr double kUncertaintyAnOctave = 0.1;

TermVector terms_of(const ModuleLoad& load) {
  return {1, static_cast<double>(load.sequences), static_cast<double>(load.units),
          static_cast<double>(load.units_squared)};
}

// Seconds of one sequence by the form.
double form(const ModuleCoefficients& c, double length) {
  return c.per_sequence + (c.per_unit + c.per_unit_squared * length) * length;
}

bool of_one_length(const ModuleLoad& load) {
  return load.sequences > 0 && load.units > 0 && load.units % load.sequences == 0 &&
         load.units_squared == load.units / load.sequences * load.units;
}

}  // namespace

Seconds predict(const ModuleCoefficients& coefficients, const ModuleLoad& load) {
  if (load.sequences == 0 && load.units == 0) return Seconds{0};
  return Seconds{coefficients.per_microbatch +
                 coefficients.per_sequence * static_cast<double>(load.sequences) +
                 coefficients.per_unit * static_cast<double>(load.units) +
                 coefficients.per_unit_squared * static_cast<double>(load.units_squared)};
}

// Solved in units of each term's typical share, where all are near one.
ModuleCoefficients fit_coefficients(const std::vector<ProfilePoint>& points) {
  constexpr double kRidge = 1e-9;  // terms that the points do not tell apart
  TermMatrix a{};
  TermVector b{};
  TermVector unit{};
  for (const ProfilePoint& point : points) {
    const TermVector terms = terms_of(point.load);
    for (std::size_t i = 0; i < kTermCount; ++i) {
      unit[i] += terms[i] / (point.seconds() * static_cast<double>(points.size()));
    }
  }
  for (const ProfilePoint& point : points) {
    TermVector terms = terms_of(point.load);
    for (std::size_t i = 0; i < kTermCount; ++i) {
      terms[i] = unit[i] > 0 ? terms[i] / (point.seconds() * unit[i]) : 0;
    }
    for (std::size_t i = 0; i < kTermCount; ++i) {
      for (std::size_t j = 0; j < kTermCount; ++j) a[i][j] += terms[i] * terms[j];
      b[i] += terms[i];
    }
  }
  for (std::size_t i = 0; i < kTermCount; ++i) a[i][i] += kRidge;
  TermVector solution = solve_non_negative(a, b);
  for (std::size_t i = 0; i < kTermCount; ++i) {
    solution[i] = unit[i] > 0 ? solution[i] / unit[i] : 0;
  }
  return {solution[0], solution[1], solution[2], solution[3]};
}

std::string_view price_origin_name(PriceOrigin origin) {
  constexpr std::string_view kNames[] = {"stated", "measured", "interpolated", "extrapolated"};
  return kNames[static_cast<std::size_t>(origin)];
}

ModulePredictor::ModulePredictor(const ModuleProfile& profile)
    : coefficients_(profile.coefficients) {
  if (profile.points.empty()) return;
  add_knots(profile.points);
  double squares = 0;
  for (const ProfilePoint& point : profile.points) {
    const double miss = microbatch(point.load) / point.seconds() - 1;
    squares += miss * miss + point.spread * point.spread;
    most_units_ = std::max(most_units_, static_cast<double>(point.load.units));
  }
  error_ = std::sqrt(squares / static_cast<double>(profile.points.size()));
}

// Seconds of one sequence at each measured length, nearest to that length's points in relative
// terms. Neighbours that fall with the length are pooled.
void ModulePredictor::add_knots(const std::vector<ProfilePoint>& points) {
  struct Sums {
    double xy = 0;
    double xx = 0;
  };
  std::map<std::int64_t, Sums> lengths;
  for (const ProfilePoint& point : points) {
    if (!of_one_length(point.load)) continue;
    const double x = static_cast<double>(point.load.sequences) / point.seconds();
    Sums& sums = lengths[point.load.units / point.load.sequences];
    sums.xy += x * (1 - fixed() / point.seconds());
    sums.xx += x * x;
  }
  struct Pool {
    double sum = 0;
    std::size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  std::vector<double> log_lengths;
  for (const auto& [length, sums] : lengths) {
    double seconds = sums.xy / sums.xx;
    if (!(seconds > 0)) seconds = form(coefficients_, static_cast<double>(length));
    if (!(seconds > 0)) continue;
    log_lengths.push_back(std::log2(static_cast<double>(length)));
    pools.push_back({std::log2(seconds), 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::size_t at = 0;
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.count; ++i) knots_.push_back({log_lengths[at++], pool.mean()});
  }
}

double ModulePredictor::sequence_seconds(double log_length) const {
  const auto above =
      std::upper_bound(knots_.begin(), knots_.end(), log_length,
                       [](double value, const Knot& knot) { return value < knot.log_length; });
  if (above == knots_.begin()) return std::exp2(knots_.front().log_seconds);
  if (above == knots_.end()) return std::exp2(knots_.back().log_seconds);
  const Knot& below = *(above - 1);
  const double part = (log_length - below.log_length) / (above->log_length - below.log_length);
  return std::exp2(below.log_seconds + part * (above->log_seconds - below.log_seconds));
}

double ModulePredictor::sample(const ModuleLoad& load) const {
  if (load.sequences == 0 && load.units == 0) return 0;
  const double by_form = predict(coefficients_, load).count() - fixed();
  const double length = typical_length(load);
  if (knots_.empty() || length <= 0) return by_form;
  const double log_length =
      std::clamp(std::log2(length), knots_.front().log_length, knots_.back().log_length);
  const double of_form = form(coefficients_, std::exp2(log_length));
  const double measured = sequence_seconds(log_length);
  if (of_form > 0) return by_form * measured / of_form;
  return measured * static_cast<double>(load.units) / length;
}

double ModulePredictor::microbatch(const ModuleLoad& load) const {
  if (load.sequences == 0 && load.units == 0) return 0;
  return fixed() + sample(load);
}

double ModulePredictor::octaves_beyond(const ModuleLoad& load) const {
  const double length = typical_length(load);
  if (knots_.empty() || length <= 0) return 0;
  const double log_length = std::log2(length);
  const double by_length = std::max(
      {0.0, knots_.front().log_length - log_length, log_length - knots_.back().log_length});
  const double by_units = std::log2(static_cast<double>(load.units) / most_units_);
  return std::max(by_length, by_units);
}

PriceOrigin ModulePredictor::origin(const ModuleLoad& load) const {
  constexpr double kSame = 1e-9;
  if (most_units_ == 0) return PriceOrigin::kStated;
  if (knots_.empty() || octaves_beyond(load) > kSame) return PriceOrigin::kExtrapolated;
  const double log_length = std::log2(std::max(typical_length(load), 1.0));
  const bool known = std::any_of(knots_.begin(), knots_.end(), [&](const Knot& knot) {
    return std::abs(knot.log_length - log_length) < kSame;
  });
  return known ? PriceOrigin::kMeasured : PriceOrigin::kInterpolated;
}

double ModulePredictor::uncertainty(const ModuleLoad& load) const {
  if (origin(load) == PriceOrigin::kStated) return kUncertaintyOfStated;
  return error_ + kUncertaintyAnOctave * octaves_beyond(load);
}

}  // namespace isocost
