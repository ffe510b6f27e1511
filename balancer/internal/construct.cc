#include "balancer/internal/construct.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace isocost {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

template <typename Key>
std::vector<std::uint32_t> descending_by(const std::vector<Key>& keys) {
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&keys](std::uint32_t a, std::uint32_t b) { return keys[a] > keys[b]; });
  return order;
}

std::vector<std::uint32_t> largest_first(const Partition& problem) {
  std::vector<double> keys(problem.items());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double* cost = problem.cost(i);
    keys[i] = *std::max_element(cost, cost + problem.dimensions);
  }
  return descending_by(keys);
}

class Greedy {
 public:
  explicit Greedy(const Partition& problem)
      : problem_(problem),
        loads_(problem.dimensions * problem.bins, 0.0),
        scores_(problem.bins),
        speeds_(problem.bins),
        used_bytes_(problem.bins, 0),
        bins_(problem.bins),
        missing_(problem.bins * problem.min_items) {
    for (std::size_t b = 0; b < problem.bins; ++b) speeds_[b] = problem.speed(b);
  }

  std::optional<Bins> run() {
    std::size_t remaining = problem_.items();
    for (const std::uint32_t item : largest_first(problem_)) {
      // Once as many items are left as bins miss, they may only go there.
      const std::size_t bin = best_bin(item, remaining == missing_);
      if (bin == kNone) return std::nullopt;
      place(item, bin);
      --remaining;
    }
    for (auto& bin : bins_) std::sort(bin.begin(), bin.end());
    return std::move(bins_);
  }

 private:
  // Largest load of each bin with the item in it. Dimension by dimension, so that it vectorises.
  void score(std::uint32_t item) {
    std::fill(scores_.begin(), scores_.end(), 0.0);
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      const double cost = problem_.cost(item)[k];
      const double* load = &loads_[k * problem_.bins];
      double* scores = scores_.data();
      const double* speeds = speeds_.data();
      for (std::size_t b = 0; b < problem_.bins; ++b) {
        const double with = speeds[b] * (load[b] + cost);
        scores[b] = scores[b] < with ? with : scores[b];
      }
    }
  }

  double squares(std::size_t bin, std::uint32_t item) const {
    double sum = 0;
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      const double with = speeds_[bin] * (loads_[k * problem_.bins + bin] + problem_.cost(item)[k]);
      sum += with * with;
    }
    return sum;
  }

  std::size_t best_bin(std::uint32_t item, bool only_missing) {
    score(item);
    std::size_t best = kNone;
    double best_squares = 0;
    for (std::size_t b = 0; b < problem_.bins; ++b) {
      if (best != kNone && scores_[b] > scores_[best]) continue;
      if (only_missing && bins_[b].size() >= problem_.min_items) continue;
      if (problem_.bytes_of(item) > problem_.bytes_cap - used_bytes_[b]) continue;
      const double sum = squares(b, item);
      if (best != kNone && scores_[b] == scores_[best] && sum >= best_squares) continue;
      best = b;
      best_squares = sum;
    }
    return best;
  }

  void place(std::uint32_t item, std::size_t bin) {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      loads_[k * problem_.bins + bin] += problem_.cost(item)[k];
    }
    used_bytes_[bin] += problem_.bytes_of(item);
    if (bins_[bin].size() < problem_.min_items) --missing_;
    bins_[bin].push_back(item);
  }

  const Partition& problem_;
  std::vector<double> loads_;  // [dimension][bin]
  std::vector<double> scores_;
  std::vector<double> speeds_;
  std::vector<std::int64_t> used_bytes_;
  Bins bins_;
  std::size_t missing_;  // items that bins need to reach min_items
};

// First fit may leave bins empty; there are at least as many items as bins, so others give one.
void fill_empty(Bins& bins) {
  std::size_t donor = 0;
  for (auto& bin : bins) {
    if (!bin.empty()) continue;
    while (bins[donor].size() < 2) ++donor;
    bin.push_back(bins[donor].back());
    bins[donor].pop_back();
  }
}

}  // namespace

std::optional<Bins> greedy_bins(const Partition& problem) { return Greedy(problem).run(); }

std::optional<Bins> first_fit_bins(const Partition& problem) {
  if (problem.bytes.empty() || problem.min_items > 1) return std::nullopt;
  Bins bins(problem.bins);
  std::vector<std::int64_t> free_bytes(problem.bins, problem.bytes_cap);
  const std::vector<std::int64_t> sizes(problem.bytes.begin(), problem.bytes.end());
  for (const std::uint32_t item : descending_by(sizes)) {
    const auto fits = std::find_if(free_bytes.begin(), free_bytes.end(),
                                   [&](std::int64_t room) { return room >= sizes[item]; });
    if (fits == free_bytes.end()) return std::nullopt;
    *fits -= sizes[item];
    bins[static_cast<std::size_t>(fits - free_bytes.begin())].push_back(item);
  }
  fill_empty(bins);
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  return bins;
}

std::optional<Bins> construct_bins(const Partition& problem) {
  if (auto bins = greedy_bins(problem)) return bins;
  return first_fit_bins(problem);
}

}  // namespace isocost
