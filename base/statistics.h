#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isocost {

/// Returns the arithmetic mean, summed in the order given; 0 for no values.
double mean(std::span<const double> values);

/// Returns the middle value, or the mean of the two middle values of an even count; 0 for no
/// values. Reorders `values` in place: O(n), no allocation.
double median(std::span<double> values);

/// The middle values of a sorted set: two of an even count; of an odd count, the same one twice.
struct MiddleValues {
  double lower = 0;
  double upper = 0;
};
/// Returns the middle values. `values` must not be empty, and are reordered in place: O(n), no
/// allocation.
MiddleValues middle_values(std::span<double> values);

/// Summary of a set of numbers; all fields are 0 for an empty set.
struct Distribution {
  double mean = 0;
  double deviation = 0;  ///< Standard deviation.
  double least = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double most = 0;
};

/// Returns the summary of `values`. Percentile p is the smallest value that at least p percent of
/// the values do not exceed.
Distribution distribution_of(std::vector<double> values);

/// Returns Pearson's correlation, or nothing if either side is constant or the sizes differ.
std::optional<double> correlation(std::span<const double> a, std::span<const double> b);

/// Returns Spearman's correlation: Pearson's correlation of the ranks, where equal values share
/// their mean rank.
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// Returns the part of the total that the largest values hold. `share` is the part of the values
/// (by count, at least one value) that is taken as the largest.
double share_of_largest(std::vector<double> values, double share);

}  // namespace isocost
