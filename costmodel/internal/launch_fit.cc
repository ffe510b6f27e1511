#include "costmodel/internal/launch_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "costmodel/internal/point_fit.h"

namespace isocost {
namespace {

constexpr std::size_t kFewest = 3;       // points for the form
constexpr double kAbove = 1.3;           // of the floor: a point that the device gates
constexpr double kFlatOver = 4;          // factor between the units of the points on the floor
constexpr std::size_t kFewestBelow = 4;  // points for the floor
constexpr double kFlat = 1.2;  // factor between seconds of the larger and the smaller loads on it
constexpr double kMostOfError = 0.5;  // a floor must reduce the squared error to this part
constexpr double kMostMiss = 0.25;    // a relative error counts as no more
// A device needs next to nothing for an empty load. Without this the fixed seconds of the form
// would take what the points leave open, and loads beyond them would be predicted too cheap.
constexpr double kAgainstFixed = 0.2;

// Weighted mean square of the relative errors.
double error_of(const std::vector<ProfilePoint>& points, double launches_s,
                const ModuleCoefficients& form) {
  double sum = 0;
  double weights = 0;
  for (const ProfilePoint& point : points) {
    const double predicted = std::max(launches_s, predict(form, point.load).count());
    const double miss = std::min(std::abs(predicted / point.seconds() - 1), kMostMiss);
    sum += weight_of(point) * miss * miss;
    weights += weight_of(point);
  }
  return sum / weights;
}

// Returns the weighted mean of the points' seconds.
double mean_seconds(std::span<const ProfilePoint> points) {
  double seconds = 0;
  double weights = 0;
  for (const ProfilePoint& point : points) {
    seconds += weight_of(point) * point.seconds();
    weights += weight_of(point);
  }
  return seconds / weights;
}

bool by_units(const ProfilePoint& a, const ProfilePoint& b) { return a.load.units < b.load.units; }

// Returns whether the points' loads differ, and their seconds hardly.
bool is_flat(std::vector<ProfilePoint> points) {
  std::stable_sort(points.begin(), points.end(), by_units);
  const auto fewest = static_cast<double>(points.front().load.units);
  const auto most = static_cast<double>(points.back().load.units);
  const auto [smaller, larger] = std::pair(std::span(points).first(points.size() / 2),
                                           std::span(points).subspan(points.size() / 2));
  return most >= kFlatOver * fewest && mean_seconds(larger) <= kFlat * mean_seconds(smaller);
}

bool by_seconds(const ProfilePoint& a, const ProfilePoint& b) { return a.seconds() < b.seconds(); }

}  // namespace

LaunchFit fit_launches(const std::vector<ProfilePoint>& points, const ModuleCoefficients& form) {
  LaunchFit best{.form = form, .points = points};
  double least = kMostOfError * error_of(points, 0, form);
  std::vector<ProfilePoint> sorted = points;
  std::stable_sort(sorted.begin(), sorted.end(), by_seconds);
  for (std::size_t below = kFewestBelow; below + kFewest <= sorted.size(); ++below) {
    const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(below);
    if (!is_flat({sorted.begin(), end})) continue;
    const double launches_s = mean_seconds(std::span(sorted).first(below));
    std::vector<ProfilePoint> above;
    for (const ProfilePoint& point : points) {
      if (point.seconds() > kAbove * launches_s) above.push_back(point);
    }
    if (above.size() < kFewest) break;
    const ModuleCoefficients of_device = fit_points(above, kAgainstFixed);
    const double error = error_of(points, launches_s, of_device);
    if (error >= least) continue;
    least = error;
    best = {.launches_s = launches_s, .form = of_device, .points = std::move(above)};
  }
  return best;
}

}  // namespace isocost
