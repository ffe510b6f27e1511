#include "balancer/internal/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace isocost {
namespace {

// A tile may be the smallest load or such a fraction of it (loads of 2 and 3 tiles).
constexpr int kMaxDivisor = 12;
constexpr double kMultipleTolerance = 1e-9;
// With more tiles a bin than this, rounding up gains under 0.01 %.
constexpr double kMaxTilesPerBin = 1e4;

// Every rounding below errs by at most a few units in the last place per addition; a bound must not
// come out above what a real plan sums to.
double rounded_down(double bound, std::size_t additions) {
  return bound * (1 - 2.3e-16 * static_cast<double>(additions + 4));
}

bool are_multiples(const std::vector<double>& descending, double tile) {
  return std::all_of(descending.begin(), descending.end(), [tile](double cost) {
    const double tiles = cost / tile;
    return std::abs(tiles - std::round(tiles)) <= kMultipleTolerance * std::max(tiles, 1.0);
  });
}

// The bound that a tile gives. It needs no tolerance: for whatever whole numbers n_i, with
// g = min cost_i / n_i over n_i > 0, cost_i >= g·n_i; some bin holds at least ceil(sum n_i / bins)
// of the numbers, hence at least g times that. Only its strength depends on how whole the
// multiples are.
double bound_with_tile(const std::vector<double>& descending, double tile, std::size_t bins) {
  double smallest_tile = tile;
  std::int64_t tiles = 0;
  for (const double cost : descending) {
    const double n = std::round(cost / tile);
    if (n < 1) continue;
    smallest_tile = std::min(smallest_tile, cost / n);
    tiles += static_cast<std::int64_t>(n);
  }
  const auto divisor = static_cast<std::int64_t>(bins);
  const std::int64_t most_tiles = (tiles + divisor - 1) / divisor;
  return smallest_tile * static_cast<double>(most_tiles);
}

}  // namespace

double mean_bound(double sum, std::size_t bins) { return sum / static_cast<double>(bins); }

double pigeonhole_bound(const std::vector<double>& descending, std::size_t bins,
                        std::size_t min_items) {
  const std::size_t items = descending.size();
  // smallest[n]: the sum of the n smallest items, as far as a bin must take them.
  std::vector<double> smallest(std::min(min_items, items) + 1, 0.0);
  for (std::size_t n = 1; n < smallest.size(); ++n) {
    smallest[n] = smallest[n - 1] + descending[items - n];
  }
  double best = 0;
  for (std::size_t k = 0; k * bins < items; ++k) {
    // The k+1 smallest of the k·bins+1 largest: at positions k·bins−k to k·bins.
    double sum = 0;
    for (std::size_t i = k * bins - k; i <= k * bins; ++i) sum += descending[i];
    const std::size_t others = min_items > k + 1 ? min_items - k - 1 : 0;
    best = std::max(best, sum + smallest[others]);
  }
  return best;
}

double granularity_bound(const std::vector<double>& descending, std::size_t bins) {
  const auto last_positive =
      std::find_if(descending.rbegin(), descending.rend(), [](double cost) { return cost > 0; });
  if (last_positive == descending.rend()) return 0;
  const double smallest = *last_positive;
  double sum = 0;
  for (const double cost : descending) sum += cost;
  for (int divisor = 1; divisor <= kMaxDivisor; ++divisor) {
    const double tile = smallest / divisor;
    if (sum / tile > kMaxTilesPerBin * static_cast<double>(bins)) return 0;
    if (are_multiples(descending, tile)) return bound_with_tile(descending, tile, bins);
  }
  return 0;
}

double partition_bound(const Partition& problem) {
  double best = 0;
  std::vector<double> column(problem.items());
  for (std::size_t k = 0; k < problem.dimensions; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = problem.cost(i)[k];
      sum += column[i];
    }
    std::sort(column.begin(), column.end(), std::greater<>());
    const double bound = std::max({mean_bound(sum, problem.bins),
                                   pigeonhole_bound(column, problem.bins, problem.min_items),
                                   granularity_bound(column, problem.bins)});
    best = std::max(best, rounded_down(bound, column.size()));
  }
  return best;
}

}  // namespace isocost
