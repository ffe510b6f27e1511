#include "costmodel/internal/drift.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "costmodel/cost_model.h"
#include "costmodel/internal/robust_statistics.h"

namespace isocost {
namespace {

constexpr double kSmallestDrift = 0.05;
// Standard deviations of a median that chance explains.
constexpr double kChanceOfMedian = 4;

}  // namespace

bool DriftDetector::take(double median_ratio, std::size_t rows, double noise) {
  steps_without_ = rows == 0 ? std::min(steps_without_ + 1, kDriftSteps) : 0;
  if (rows == 0) return false;
  const double chance =
      kChanceOfMedian * kMedianDeviation * noise / std::sqrt(static_cast<double>(rows));
  if (!(std::abs(median_ratio - 1) > std::max(kSmallestDrift, chance))) {  // also true for NaN
    steps_off_ = 0;
    return false;
  }
  const int side = median_ratio > 1 ? 1 : -1;
  const bool continues = steps_off_ * side > 0;
  steps_off_ = continues ? steps_off_ + side : side;
  ratios_off_ = continues ? ratios_off_ + median_ratio : median_ratio;
  if (std::abs(steps_off_) < kDriftSteps) return false;
  ratio_ = ratios_off_ / kDriftSteps;
  drifts_ += 1;
  steps_off_ = 0;
  return true;
}

}  // namespace isocost
