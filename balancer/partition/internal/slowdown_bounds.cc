#include "balancer/partition/internal/slowdown_bounds.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "balancer/partition/internal/bounds.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {
namespace {

constexpr int kMakespanHalvings = 64;
// Most items that share a bin: with more, the bound is hardly stronger than the mean.
constexpr std::size_t kMostShared = 32;

// Bins of equal slowdown, which are evaluated once.
struct SlowdownClass {
  double slowdown;
  std::size_t bins;
};

// Returns the classes, fastest first.
std::vector<SlowdownClass> classes_of(std::span<const double> slowdowns) {
  std::vector<double> sorted(slowdowns.begin(), slowdowns.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<SlowdownClass> classes;
  for (const double slowdown : sorted) {
    if (classes.empty() || classes.back().slowdown != slowdown) classes.push_back({slowdown, 0});
    ++classes.back().bins;
  }
  return classes;
}

// Returns the largest makespan, up to rounding, at which `has_room` is false, or 0 if it never is.
// `has_room` must be monotone; it must be false at `low`, or `low` must be 0.
double last_without_room(double low, double high, const std::function<bool(double)>& has_room) {
  for (int i = 0; i < kMakespanHalvings && low < high * (1 - 1e-15); ++i) {
    const double middle = low + (high - low) / 2;
    (has_room(middle) ? high : low) = middle;
  }
  return low;
}

// Returns a makespan at which all items fit into any one bin.
double ample(const std::vector<double>& descending, const std::vector<SlowdownClass>& classes) {
  double sum = 0;
  for (const double cost : descending) sum += cost;
  return 2 * sum * classes.back().slowdown;
}

// Returns whether the bins have room for the `items` largest items. needs[c]: the least load of a
// bin that holds c of them.
bool has_room_for(std::size_t items, const std::vector<double>& needs,
                  const std::vector<SlowdownClass>& classes, double makespan) {
  std::size_t room = 0;
  for (const SlowdownClass& alike : classes) {
    const double load = makespan / alike.slowdown * (1 + kRoomSlack);
    const auto fits = std::upper_bound(needs.begin(), needs.end(), load) - needs.begin();
    if (fits == 0) return false;  // not even the items that it must hold fit
    room += alike.bins * static_cast<std::size_t>(fits - 1);
  }
  return room >= items;
}

// Returns needs[c] for the j largest items: the c smallest of them, plus the smallest items overall
// that complete min_items. smallest[n]: the sum of the n smallest items.
std::vector<double> needs_of(const std::vector<double>& descending, std::size_t j,
                             const std::vector<double>& smallest, std::size_t min_items) {
  std::vector<double> needs;
  double sum = 0;
  for (std::size_t c = 0; c <= j; ++c) {
    if (c > 0) sum += descending[j - c];
    needs.push_back(sum + smallest[min_items > c ? min_items - c : 0]);
    // Keeps the sequence ascending despite rounding.
    if (c > 0) needs[c] = std::max(needs[c], needs[c - 1]);
  }
  return needs;
}

}  // namespace

double slowdown_mean_bound(const std::vector<double>& descending,
                           std::span<const double> slowdowns) {
  double sum = 0;
  for (const double cost : descending) sum += cost;
  double rate = 0;
  for (const double slowdown : slowdowns) rate += 1 / slowdown;
  return sum / rate;
}

double slowdown_largest_item_bound(const std::vector<double>& descending,
                                   std::span<const double> slowdowns) {
  std::vector<double> fastest(slowdowns.begin(), slowdowns.end());
  std::sort(fastest.begin(), fastest.end());
  double best = 0;
  double sum = 0;
  double rate = 0;
  for (std::size_t j = 0; j < std::min(descending.size(), fastest.size()); ++j) {
    sum += descending[j];
    rate += 1 / fastest[j];
    best = std::max(best, sum / rate);
  }
  return best;
}

double slowdown_pigeonhole_bound(const std::vector<double>& descending,
                                 std::span<const double> slowdowns, std::size_t min_items) {
  const std::vector<SlowdownClass> classes = classes_of(slowdowns);
  const double high = ample(descending, classes);
  const std::size_t items = descending.size();
  std::vector<double> smallest(std::min(min_items, items) + 1, 0.0);
  min_items = smallest.size() - 1;
  for (std::size_t n = 1; n < smallest.size(); ++n) {
    smallest[n] = smallest[n - 1] + descending[items - n];
  }
  double best = 0;
  const std::size_t last = std::min(items, kMostShared * slowdowns.size() + 1);
  for (std::size_t j = 1; j <= last; j += slowdowns.size()) {
    const std::vector<double> needs = needs_of(descending, j, smallest, min_items);
    const auto has_room = [&](double makespan) {
      return has_room_for(j, needs, classes, makespan);
    };
    if (!has_room(best)) best = last_without_room(best, high, has_room);
  }
  return best;
}

double slowdown_granularity_bound(const std::vector<double>& descending,
                                  std::span<const double> slowdowns) {
  const auto tiles = find_tiles(descending, slowdowns.size());
  if (!tiles) return 0;
  const std::vector<SlowdownClass> classes = classes_of(slowdowns);
  return last_without_room(0, ample(descending, classes), [&](double makespan) {
    double room = 0;
    for (const SlowdownClass& alike : classes) {
      const double fits = makespan / (alike.slowdown * tiles->tile) * (1 + kRoomSlack);
      room += static_cast<double>(alike.bins) * std::floor(fits);
    }
    return room >= static_cast<double>(tiles->count);
  });
}

}  // namespace isocost
