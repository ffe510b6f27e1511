#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

namespace isocost {
namespace {

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::span<double> values) {
  if (values.empty()) return 0;
  const MiddleValues middle = middle_values(values);
  return (middle.lower + middle.upper) / 2;
}

MiddleValues middle_values(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return {*middle, *middle};
  return {*std::max_element(values.begin(), middle), *middle};
}

Distribution distribution_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const auto percentile = [&](double share) {
    return values[static_cast<std::size_t>(std::max(0.0, std::ceil(share * n) - 1))];
  };
  Distribution distribution{
      mean(values), 0, values.front(), percentile(0.5), percentile(0.9), percentile(0.99),
      values.back()};
  double squares = 0;
  for (const double value : values) {
    squares += (value - distribution.mean) * (value - distribution.mean);
  }
  distribution.deviation = std::sqrt(squares / n);
  return distribution;
}

std::optional<double> correlation(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || a.size() != b.size()) return std::nullopt;
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  const double scale = std::sqrt(aa) * std::sqrt(bb);
  if (!(scale > 0)) return std::nullopt;
  return std::clamp(ab / scale, -1.0, 1.0);
}

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  return correlation(ranks_of(a), ranks_of(b));
}

double share_of_largest(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end(), std::greater<>());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const auto wanted =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto count = static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(wanted, 1, values.size()));
  return sum > 0 ? std::accumulate(values.begin(), values.begin() + count, 0.0) / sum : 0;
}

}  // namespace isocost
