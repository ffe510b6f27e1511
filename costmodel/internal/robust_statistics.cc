#include "costmodel/internal/robust_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/statistics.h"

namespace isocost {

double median_near(std::span<double> values, double usual) {
  if (values.empty()) return usual;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const double below = *std::max_element(values.begin(), middle);
  return std::abs(below - usual) < std::abs(*middle - usual) ? below : *middle;
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
