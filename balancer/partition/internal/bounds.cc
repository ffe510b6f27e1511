#include "balancer/partition/internal/bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "balancer/partition/internal/slowdown_bounds.h"

namespace isocost {
namespace {

// A tile may be the smallest load divided by up to this number (loads of 2 and 3 tiles).
constexpr int kMaxDivisor = 12;
constexpr double kMultipleTolerance = 1e-9;
constexpr double kSameBound = 1e-12;
// Relative error of a difference of prefix sums over at most 2^30 items.
constexpr double kPrefixError = 1e-12;
constexpr int kCrowdHalvings = 60;
// With more tiles per bin than this, rounding up gains less than 0.01 %.
constexpr double kMaxTilesPerBin = 1e4;

// Rounds a bound down. Rounding errs by at most a few units in the last place per addition, and a
// bound must not exceed the sum that a real plan computes.
double rounded_down(double bound, std::size_t additions) {
  return bound * (1 - 2.3e-16 * static_cast<double>(additions + 4));
}

// Keeps the greater bound. Of bounds that are equal up to rounding, keeps the first, which has the
// simplest reason.
void raise(LowerBound& best, double value, Limit limit) {
  if (value > best.value * (1 + kSameBound)) best = {value, limit};
}

bool are_multiples(const std::vector<double>& descending, double tile) {
  return std::all_of(descending.begin(), descending.end(), [tile](double cost) {
    const double tiles = cost / tile;
    return std::abs(tiles - std::round(tiles)) <= kMultipleTolerance * std::max(tiles, 1.0);
  });
}

// Bounds by tiles need no tolerance: for any whole numbers n_i, with g = min cost_i / n_i over
// n_i > 0, cost_i >= g·n_i. Only the strength of the bound depends on the precision of the
// multiples.
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

LowerBound column_bound(const std::vector<double>& descending, double sum,
                        const Partition& problem) {
  LowerBound best;
  if (problem.slowdowns.empty()) {
    raise(best, mean_bound(sum, problem.bins), Limit::kTotal);
    const LowerBound shared = pigeonhole_bound(descending, problem.bins, problem.min_items);
    raise(best, shared.value, shared.limit);
    raise(best, granularity_bound(descending, problem.bins), Limit::kTiles);
    return best;
  }
  raise(best, slowdown_mean_bound(descending, problem.slowdowns), Limit::kTotal);
  raise(best, slowdown_largest_item_bound(descending, problem.slowdowns), Limit::kLargestItem);
  raise(best, slowdown_pigeonhole_bound(descending, problem.slowdowns, 0), Limit::kPigeonhole);
  raise(best, slowdown_pigeonhole_bound(descending, problem.slowdowns, problem.min_items),
        Limit::kCounts);
  raise(best, slowdown_granularity_bound(descending, problem.slowdowns), Limit::kTiles);
  return best;
}

// Returns the largest sum of 1 / slowdown over any n bins, for every n: the most work that n bins
// can do per second.
std::vector<double> best_rates(const Partition& problem) {
  std::vector<double> rates(problem.bins);
  for (std::size_t b = 0; b < problem.bins; ++b) rates[b] = 1 / problem.slowdown(b);
  std::sort(rates.begin(), rates.end(), std::greater<>());
  std::vector<double> sums(problem.bins + 1, 0.0);
  for (std::size_t n = 0; n < problem.bins; ++n) sums[n + 1] = sums[n] + rates[n];
  return sums;
}

// Returns the sets of weights to try: pairs of dimensions at 1:3, 1:1 and 3:1, and all dimensions
// equal.
std::vector<std::vector<double>> weight_sets(std::size_t dimensions) {
  std::vector<std::vector<double>> list;
  for (std::size_t a = 0; a < dimensions; ++a) {
    for (std::size_t b = a + 1; b < dimensions; ++b) {
      for (const double weight : {0.25, 0.5, 0.75}) {
        auto& weights = list.emplace_back(dimensions, 0.0);
        weights[a] = weight;
        weights[b] = 1 - weight;
      }
    }
  }
  if (dimensions > 2) list.emplace_back(dimensions, 1 / static_cast<double>(dimensions));
  return list;
}

}  // namespace

double mean_bound(double sum, std::size_t bins) { return sum / static_cast<double>(bins); }

LowerBound pigeonhole_bound(const std::vector<double>& descending, std::size_t bins,
                            std::size_t min_items) {
  const std::size_t items = descending.size();
  // smallest[n]: the sum of the n smallest items, up to the number that a bin must hold.
  std::vector<double> smallest(std::min(min_items, items) + 1, 0.0);
  for (std::size_t n = 1; n < smallest.size(); ++n) {
    smallest[n] = smallest[n - 1] + descending[items - n];
  }
  LowerBound best{.value = 0, .limit = Limit::kLargestItem};
  for (std::size_t k = 0; k * bins < items; ++k) {
    // Adds the k+1 smallest of the k·bins+1 largest, at positions k·bins−k to k·bins.
    double sum = 0;
    for (std::size_t i = k * bins - k; i <= k * bins; ++i) sum += descending[i];
    const std::size_t others = min_items > k + 1 ? min_items - k - 1 : 0;
    const bool counted = smallest[others] > 0;
    raise(best, sum + smallest[others],
          counted ? Limit::kCounts : (k == 0 ? Limit::kLargestItem : Limit::kPigeonhole));
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

LowerBound partition_bound(const Partition& problem) {
  LowerBound best;
  std::vector<double> column(problem.items());
  for (std::size_t k = 0; k < problem.dimensions; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = problem.cost(i)[k];
      sum += column[i];
    }
    std::sort(column.begin(), column.end(), std::greater<>());
    const LowerBound bound = column_bound(column, sum, problem);
    raise(best, rounded_down(bound.value, column.size()), bound.limit);
  }
  raise(best, rounded_down(cap_bound(problem), column.size()), Limit::kCap);
  return best;
}

double trade_off_bound(const Partition& problem) {
  double best = 0;
  std::vector<double> column(problem.items());
  for (const std::vector<double>& weights : weight_sets(problem.dimensions)) {
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = std::inner_product(weights.begin(), weights.end(), problem.cost(i), 0.0);
    }
    std::sort(column.begin(), column.end(), std::greater<>());
    best = std::max(best,
                    problem.slowdowns.empty()
                        ? pigeonhole_bound(column, problem.bins, problem.min_items).value
                        : slowdown_pigeonhole_bound(column, problem.slowdowns, problem.min_items));
  }
  return rounded_down(best, column.size() + 2 * problem.dimensions);
}

namespace {

/// Decides whether bins of equal slowdown can hold the loads of one dimension. See crowd_bound.
class Crowd {
 public:
  Crowd(std::vector<double> descending, std::size_t bins)
      : loads_(std::move(descending)), bins_(bins), sums_(loads_.size() + 1, 0.0) {
    for (std::size_t i = 0; i < loads_.size(); ++i) sums_[i + 1] = sums_[i] + loads_[i];
  }

  double total() const { return sums_.back(); }

  // Returns whether no assignment has a makespan of `makespan`.
  bool is_too_much_for(double makespan) const {
    for (std::size_t large = bins_ + 1; large <= loads_.size(); ++large) {
      const double least = loads_[large - 1];
      if (least <= 0) break;
      if (large < loads_.size() && loads_[large] == least) continue;  // take all equal items
      if (crowds(large, least, makespan)) return true;
    }
    return false;
  }

 private:
  // Returns whether the bins that hold k+1 of the `large` largest items, each at least `least`,
  // leave more work to the other bins than these can hold.
  bool crowds(std::size_t large, double least, double makespan) const {
    const std::size_t each = (large - 1) / bins_ + 1;  // k+1: some bin holds this many
    const auto most = static_cast<double>(each);
    if (makespan < most * least * (1 - kPrefixError)) return true;
    if (makespan >= (most + 1) * least * (1 - kPrefixError)) return false;
    const std::size_t crowded = large - (each - 1) * bins_;
    const std::size_t in_them = std::min(large, each * crowded);
    // One more crowded bin must not increase the total that all bins hold.
    if (sums_[std::min(large, in_them + each)] - sums_[in_them] > makespan) return false;
    const double room = makespan - most * least + kPrefixError * total();
    const auto first_small =
        std::partition_point(loads_.begin() + static_cast<std::ptrdiff_t>(large), loads_.end(),
                             [room](double load) { return load > room; });
    const double small = total() - sums_[static_cast<std::size_t>(first_small - loads_.begin())];
    const double held = std::min(sums_[in_them] + small, static_cast<double>(crowded) * makespan) +
                        static_cast<double>(bins_ - crowded) * makespan;
    return held < total() * (1 - kPrefixError);
  }

  std::vector<double> loads_;
  std::size_t bins_;
  std::vector<double> sums_;  // [items + 1]: sums of the largest items
};

}  // namespace

double crowd_bound(const Partition& problem) {
  if (!problem.slowdowns.empty()) return 0;
  const std::size_t items = problem.items();
  double best = 0;
  for (std::size_t k = 0; k < problem.dimensions; ++k) {
    std::vector<double> column(items);
    for (std::size_t i = 0; i < column.size(); ++i) column[i] = problem.cost(i)[k];
    std::sort(column.begin(), column.end(), std::greater<>());
    const Crowd crowd(std::move(column), problem.bins);
    double low = std::max(best, mean_bound(crowd.total(), problem.bins));
    if (!crowd.is_too_much_for(low)) continue;
    double high = crowd.total();
    for (int i = 0; i < kCrowdHalvings && low < high * (1 - 1e-15); ++i) {
      const double middle = low + (high - low) / 2;
      (crowd.is_too_much_for(middle) ? low : high) = middle;
    }
    best = low;
  }
  return rounded_down(best, items);
}

namespace {

/// The least work (weighted sum over the dimensions) of any set of items with a given total size in
/// one resource. Fractions of items are allowed, so this is a lower bound on the work of whole
/// items.
class LeastWork {
 public:
  LeastWork(const Partition& problem, std::size_t resource, const std::vector<double>& weights) {
    for (std::size_t i = 0; i < problem.items(); ++i) {
      const auto size = static_cast<double>(problem.size(i, resource));
      if (size <= 0) continue;
      items_.push_back(
          {size, std::inner_product(weights.begin(), weights.end(), problem.cost(i), 0.0)});
    }
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.work * b.size < b.work * a.size;
    });
    for (std::size_t i = 1; i < items_.size(); ++i) {
      items_[i].size += items_[i - 1].size;
      items_[i].work += items_[i - 1].work;
    }
  }

  double of(double size) const {
    if (size <= 0 || items_.empty()) return 0;
    const auto at = std::partition_point(items_.begin(), items_.end(),
                                         [size](const Item& upto) { return upto.size < size; });
    const Item before = at == items_.begin() ? Item{} : *(at - 1);
    if (at == items_.end()) return before.work * (1 - kPrefixError);
    const double part = (size - before.size) / (at->size - before.size);
    return (before.work + part * (at->work - before.work)) * (1 - kPrefixError);
  }

 private:
  struct Item {
    double size = 0;
    double work = 0;
  };
  std::vector<Item> items_;  // prefix sums
};

// Returns the items by size in one resource, largest first.
std::vector<std::uint32_t> largest_first(const Partition& problem, std::size_t resource) {
  std::vector<std::uint32_t> order(problem.items());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem.size(a, resource) > problem.size(b, resource);
  });
  return order;
}

double capped_slowdown_bound(const Partition& problem, std::size_t resource,
                             const std::vector<double>& slowdowns) {
  double total = 0;
  for (std::size_t i = 0; i < problem.items(); ++i) {
    total += static_cast<double>(problem.size(i, resource));
  }
  auto list = weight_sets(problem.dimensions);
  for (std::size_t k = 0; k < problem.dimensions; ++k) {
    list.emplace_back(problem.dimensions, 0.0)[k] = 1;
  }
  double best = 0;
  for (const std::vector<double>& weights : list) {
    const LeastWork work(problem, resource, weights);
    double rate = 0;
    for (std::size_t j = 1; j <= slowdowns.size(); ++j) {
      rate += 1 / slowdowns[j - 1];
      const double elsewhere =
          static_cast<double>(problem.caps[resource]) * static_cast<double>(slowdowns.size() - j);
      best = std::max(best, work.of(total * (1 - kPrefixError) - elsewhere) / rate);
    }
  }
  return rounded_down(best, problem.items() + 2 * problem.dimensions);
}

double cap_bound(const Partition& problem, std::size_t resource, const std::vector<double>& rates) {
  const std::vector<std::uint32_t> order = largest_first(problem, resource);
  const auto size = [&](std::size_t place) { return problem.size(order[place], resource); };
  // sums[i]: the costs of the first i items.
  std::vector<double> sums((order.size() + 1) * problem.dimensions, 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      sums[(i + 1) * problem.dimensions + k] =
          sums[i * problem.dimensions + k] + problem.cost(order[i])[k];
    }
  }
  double best = 0;
  std::size_t end = order.size();  // items before `end` do not fit beside the j-th
  for (std::size_t j = 1; j <= order.size(); ++j) {
    const std::int64_t room = problem.caps[resource] - size(j - 1);
    if (size(j - 1) <= room) break;
    while (end > 0 && size(end - 1) <= room) --end;
    if (end <= j) continue;
    if (j >= problem.bins) return std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      const double others = sums[end * problem.dimensions + k] - sums[j * problem.dimensions + k];
      best = std::max(best, others / rates[problem.bins - j] -
                                sums[end * problem.dimensions + k] * kPrefixError);
    }
  }
  return best;
}

}  // namespace

double capped_slowdown_bound(const Partition& problem) {
  if (problem.slowdowns.empty()) return 0;
  std::vector<double> slowdowns(problem.slowdowns.begin(), problem.slowdowns.end());
  std::sort(slowdowns.begin(), slowdowns.end(), std::greater<>());
  double best = 0;
  for (std::size_t r = 0; r < problem.resources; ++r) {
    best = std::max(best, capped_slowdown_bound(problem, r, slowdowns));
  }
  return best;
}

double cap_bound(const Partition& problem) {
  const std::vector<double> rates = best_rates(problem);
  double best = 0;
  for (std::size_t r = 0; r < problem.resources; ++r) {
    best = std::max(best, cap_bound(problem, r, rates));
  }
  return best;
}

}  // namespace isocost
