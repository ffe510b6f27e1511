#include "balancer/internal/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "balancer/internal/speed_bounds.h"

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

// Bounds by tiles need no tolerance: for whatever whole numbers n_i, with g = min cost_i / n_i over
// n_i > 0, cost_i >= g·n_i. Only their strength depends on how whole the multiples are.
Tiles count_tiles(const std::vector<double>& descending, double tile) {
  Tiles tiles{.tile = tile};
  for (const double cost : descending) {
    const double n = std::round(cost / tile);
    if (n < 1) continue;
    tiles.tile = std::min(tiles.tile, cost / n);
    tiles.count += static_cast<std::int64_t>(n);
  }
  return tiles;
}

double column_bound(const std::vector<double>& descending, double sum, const Partition& problem) {
  if (problem.speeds.empty()) {
    return std::max({mean_bound(sum, problem.bins),
                     pigeonhole_bound(descending, problem.bins, problem.min_items),
                     granularity_bound(descending, problem.bins)});
  }
  return std::max({speed_mean_bound(descending, problem.speeds),
                   speed_pigeonhole_bound(descending, problem.speeds, problem.min_items),
                   speed_granularity_bound(descending, problem.speeds)});
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

std::optional<Tiles> find_tiles(const std::vector<double>& descending, std::size_t bins) {
  const auto last_positive =
      std::find_if(descending.rbegin(), descending.rend(), [](double cost) { return cost > 0; });
  if (last_positive == descending.rend()) return std::nullopt;
  const double smallest = *last_positive;
  double sum = 0;
  for (const double cost : descending) sum += cost;
  for (int divisor = 1; divisor <= kMaxDivisor; ++divisor) {
    const double tile = smallest / divisor;
    if (sum / tile > kMaxTilesPerBin * static_cast<double>(bins)) return std::nullopt;
    if (are_multiples(descending, tile)) return count_tiles(descending, tile);
  }
  return std::nullopt;
}

double granularity_bound(const std::vector<double>& descending, std::size_t bins) {
  const auto tiles = find_tiles(descending, bins);
  if (!tiles) return 0;
  const auto divisor = static_cast<std::int64_t>(bins);
  const std::int64_t most = (tiles->count + divisor - 1) / divisor;
  return tiles->tile * static_cast<double>(most);
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
    best = std::max(best, rounded_down(column_bound(column, sum, problem), column.size()));
  }
  return best;
}

}  // namespace isocost
