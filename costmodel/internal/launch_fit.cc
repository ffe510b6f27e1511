#include "costmodel/internal/launch_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "costmodel/internal/point_fit.h"

namespace isocost {
namespace {

constexpr std::size_t kFewest = 3;     // points for the form, and two for the floor
constexpr double kAbove = 1.15;        // of the floor: a point that the device gates
constexpr double kFlatOver = 4;        // factor between the units of the points on the floor
constexpr double kMostOfError = 0.75;  // that a floor may leave, else there is none
constexpr double kMostMiss = 0.25;     // a relative error counts as no more
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

bool by_seconds(const ProfilePoint& a, const ProfilePoint& b) { return a.seconds() < b.seconds(); }

}  // namespace

LaunchFit fit_launches(const std::vector<ProfilePoint>& points, const ModuleCoefficients& form) {
  LaunchFit best{.form = form, .points = points};
  double least = kMostOfError * error_of(points, 0, form);
  std::vector<ProfilePoint> sorted = points;
  std::stable_sort(sorted.begin(), sorted.end(), by_seconds);
  double seconds = 0;
  double weights = 0;
  std::int64_t fewest_units = 0;
  std::int64_t most_units = 0;
  for (std::size_t below = 1; below + kFewest <= sorted.size(); ++below) {
    const ProfilePoint& last = sorted[below - 1];
    seconds += weight_of(last) * last.seconds();
    weights += weight_of(last);
    fewest_units = below == 1 ? last.load.units : std::min(fewest_units, last.load.units);
    most_units = std::max(most_units, last.load.units);
    if (static_cast<double>(most_units) < kFlatOver * static_cast<double>(fewest_units)) continue;
    const double launches_s = seconds / weights;
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
