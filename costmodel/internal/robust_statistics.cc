#include "costmodel/internal/robust_statistics.h"

#include <cmath>

#include "base/statistics.h"

namespace isocost {

double median_near(std::span<double> values, double usual) {
  if (values.empty()) return usual;
  const auto [lower, upper] = middle_values(values);
  return std::abs(lower - usual) < std::abs(upper - usual) ? lower : upper;
}

double robust_deviation(std::span<double> values, double centre) {
  for (double& value : values) value = std::abs(value - centre);
  return 1.4826 * median(values);
}

double significant(double deviation, double noise) {
  if (std::abs(deviation) <= noise) return 0;
  const double share = noise / deviation;
  return deviation * (1 - share * share * share * share);
}

}  // namespace isocost
