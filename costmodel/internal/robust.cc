#include "costmodel/internal/robust.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace isocost {

namespace {

// The two middle values; of an odd count the middle one twice. Of some values.
struct Middle {
  double low = 0;
  double high = 0;
};
Middle middle_of(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return {*middle, *middle};
  return {*std::max_element(values.begin(), middle), *middle};
}

}  // namespace

double median(std::span<double> values) {
  if (values.empty()) return 0;
  const Middle middle = middle_of(values);
  return (middle.low + middle.high) / 2;
}

double median_near(std::span<double> values, double usual) {
  if (values.empty()) return usual;
  const Middle middle = middle_of(values);
  return std::abs(middle.low - usual) < std::abs(middle.high - usual) ? middle.low : middle.high;
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
