#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isocost {

/// Of a sample of numbers; all zero for none.
struct Distribution {
  double mean = 0;
  double deviation = 0;  ///< Standard deviation.
  double least = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double most = 0;
};

/// Percentiles are the smallest value that so many per cent do not exceed.
Distribution distribution_of(std::vector<double> values);

/// Pearson's correlation; none where either side does not vary.
std::optional<double> correlation(std::span<const double> a, std::span<const double> b);

/// Spearman's: that of the ranks, equal values sharing their mean rank.
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// The part of the sum that the largest values hold, `share` of them by count (at least one).
double share_of_largest(std::vector<double> values, double share);

}  // namespace isocost
