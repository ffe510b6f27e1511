#include "costmodel/internal/robust.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace isocost {

double median(std::span<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
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
