#include "costmodel/internal/curve_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace isocost {
namespace {

using Knot = Curve::Knot;

constexpr int kTurns = 12;
constexpr double kOctavesApart = 2;  // distance of the batch curve's knots
constexpr double kFlatness = 0.1;    // weight of a knot's distance to its neighbour, in points
constexpr double kSteepest = 0.5;    // slope limit of the batch curve: seconds grow with the load

struct Point {
  double length = 0;
  double sequences = 0;
  double units = 0;
  double seconds = 0;
};

bool of_one_length(const ModuleLoad& load) {
  return load.sequences > 0 && load.units > 0 && load.units % load.sequences == 0 &&
         load.units_squared == load.units / load.sequences * load.units;
}

std::vector<Point> usable(const std::vector<ProfilePoint>& points) {
  std::vector<Point> usable;
  for (const ProfilePoint& point : points) {
    if (!of_one_length(point.load)) continue;
    const std::int64_t length = point.load.units / point.load.sequences;
    usable.push_back({.length = static_cast<double>(length),
                      .sequences = static_cast<double>(point.load.sequences),
                      .units = static_cast<double>(point.load.units),
                      .seconds = point.seconds()});
  }
  return usable;
}

double seconds_of_form(const ModuleCoefficients& form, double length) {
  return form.per_sequence + (form.per_unit + form.per_unit_squared * length) * length;
}

// Returns a curve with ascending knots, by pooling neighbours that descend (isotonic regression).
Curve rising(const std::vector<Knot>& knots) {
  struct Pool {
    double sum = 0;
    std::size_t count = 0;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const Knot& knot : knots) {
    pools.push_back({knot.log_y, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<Knot> risen;
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.count; ++i) {
      risen.push_back({knots[risen.size()].log_x, pool.mean()});
    }
  }
  return Curve(std::move(risen));
}

// Fits, at each measured length, the seconds of a sequence to its points.
Curve fit_sequence(const std::vector<Point>& points, const ModuleCoefficients& form,
                   const Curve& batch) {
  struct Sums {
    double xy = 0;
    double xx = 0;
  };
  std::map<double, Sums> lengths;
  for (const Point& point : points) {
    const double x = point.sequences * batch.at(point.units) / point.seconds;
    Sums& sums = lengths[point.length];
    sums.xy += x * (1 - form.per_microbatch / point.seconds);
    sums.xx += x * x;
  }
  std::vector<Knot> knots;
  for (const auto& [length, sums] : lengths) {
    double seconds = sums.xy / sums.xx;
    if (!(seconds > 0)) seconds = seconds_of_form(form, length);
    if (seconds > 0) knots.push_back({std::log2(length), std::log2(seconds)});
  }
  return rising(knots);
}

// Returns knots that are evenly spaced over the measured microbatches; none if all have nearly the
// same size.
std::vector<Knot> batch_knots(const std::vector<Point>& points) {
  const auto [least, most] =
      std::minmax_element(points.begin(), points.end(),
                          [](const Point& a, const Point& b) { return a.units < b.units; });
  const double low = std::log2(least->units);
  const double octaves = std::log2(most->units) - low;
  const auto intervals = static_cast<std::size_t>(octaves / kOctavesApart);
  std::vector<Knot> knots;
  for (std::size_t k = 0; intervals > 0 && k <= intervals; ++k) {
    knots.push_back({low + octaves * static_cast<double>(k) / static_cast<double>(intervals), 0});
  }
  return knots;
}

// The position of a point between two knots.
struct KnotPosition {
  std::size_t below = 0;
  double part = 0;  // fraction of the way to the next knot
};

KnotPosition position_of(const std::vector<Knot>& knots, double log_x) {
  const double step = knots[1].log_x - knots[0].log_x;
  const double at = std::max(0.0, (log_x - knots[0].log_x) / step);
  const auto below = std::min(static_cast<std::size_t>(at), knots.size() - 2);
  return {below, std::min(at - static_cast<double>(below), 1.0)};
}

// The value of the batch curve that a point implies.
struct Residual {
  double log_y = 0;
  double weight = 0;  // small if the fixed seconds exceed those of the sequences
};

Residual residual_of(const Point& point, const ModuleCoefficients& form, const Curve& sequence) {
  constexpr double kLeastPart = 0.1;
  const double sequences = point.sequences * sequence.at(point.length);
  const double measured = std::max(point.seconds - form.per_microbatch, kLeastPart * point.seconds);
  const double part = sequences / (form.per_microbatch + sequences);
  return {.log_y = std::log2(measured / sequences), .weight = part * part};
}

// Makes one round of least squares by Gauss-Seidel: each knot in turn, with the others fixed.
void relax(const std::vector<Point>& points, const std::vector<Residual>& residuals,
           std::vector<Knot>& knots) {
  for (std::size_t k = 0; k < knots.size(); ++k) {
    double xy = 0;
    double xx = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const KnotPosition position = position_of(knots, std::log2(points[i].units));
      if (position.below != k && position.below + 1 != k) continue;
      const bool is_below = position.below == k;
      const double x = is_below ? 1 - position.part : position.part;
      const double other =
          is_below ? position.part * knots[k + 1].log_y : (1 - position.part) * knots[k - 1].log_y;
      xy += residuals[i].weight * x * (residuals[i].log_y - other);
      xx += residuals[i].weight * x * x;
    }
    for (const std::size_t neighbour : {k - 1, k + 1}) {
      if (neighbour >= knots.size()) continue;
      xy += kFlatness * knots[neighbour].log_y;
      xx += kFlatness;
    }
    knots[k].log_y = xy / xx;
  }
}

// Sets the curve to 1 at the largest microbatch and limits its slope, so that more work never takes
// less time.
Curve anchored(std::vector<Knot> knots) {
  if (knots.empty()) return {};
  knots.back().log_y = 0;
  for (std::size_t k = knots.size() - 1; k-- > 0;) {
    const double most = kSteepest * (knots[k + 1].log_x - knots[k].log_x);
    knots[k].log_y =
        std::clamp(knots[k].log_y, knots[k + 1].log_y - most, knots[k + 1].log_y + most);
  }
  return Curve(std::move(knots));
}

}  // namespace

ModuleCurves fit_curves(const std::vector<ProfilePoint>& all, const ModuleCoefficients& form) {
  const std::vector<Point> points = usable(all);
  ModuleCurves curves;
  if (points.empty()) return curves;
  curves.sequence = fit_sequence(points, form, curves.batch);
  std::vector<Knot> knots = batch_knots(points);
  if (knots.empty()) return curves;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::vector<Residual> residuals;
    residuals.reserve(points.size());
    for (const Point& point : points) {
      residuals.push_back(residual_of(point, form, curves.sequence));
    }
    relax(points, residuals, knots);
    const double top = knots.back().log_y;
    for (Knot& knot : knots) knot.log_y -= top;
    curves.batch = anchored(knots);
    curves.sequence = fit_sequence(points, form, curves.batch);
  }
  return curves;
}

}  // namespace isocost
