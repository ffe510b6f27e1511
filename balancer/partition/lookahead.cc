#include "balancer/partition/lookahead.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "balancer/partition/first_fit.h"
#include "balancer/partition/validate.h"
#include "base/counted.h"

namespace isocost {
namespace {

using Batches = std::vector<std::vector<std::uint32_t>>;

// A composed batch may hold more than this part of its bins' caps only if a drawn batch was as
// full: packing a fuller batch under the cap could fail.
constexpr double kFullest = 0.8;

// Samples move only for a gain that exceeds rounding.
constexpr double kSmallestWindowGain = 1e-9;

Status validate_sizes(const BalanceProblem& window, const std::vector<std::size_t>& sizes) {
  const std::size_t bins = window.ranks * window.microbatches;
  std::size_t items = 0;
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    if (sizes[b] < bins) {
      return Error(ErrorCode::kInvalidArgument, "compose: batch " + std::to_string(b) + " of " +
                                                    counted(sizes[b], "item") + " cannot fill " +
                                                    counted(bins, "microbatch"));
    }
    items += sizes[b];
  }
  if (items == window.items()) return {};
  return Error(ErrorCode::kInvalidArgument, "compose: the sizes add up to " +
                                                counted(items, "item") + ", the window has " +
                                                std::to_string(window.items()));
}

class Composer {
 public:
  Composer(const BalanceProblem& window, const std::vector<std::size_t>& sizes)
      : window_(window), sizes_(sizes), order_(window.items()), means_(window.dimensions, 0.0) {
    for (std::size_t i = 0; i < window_.costs.size(); ++i) {
      means_[i % means_.size()] += window_.costs[i] / static_cast<double>(window_.items());
    }
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [this](std::uint32_t a, std::uint32_t b) { return size_of(a) > size_of(b); });
  }

  Batches as_drawn() const {
    Batches batches;
    std::uint32_t next = 0;
    for (const std::size_t size : sizes_) {
      auto& batch = batches.emplace_back(size);
      std::iota(batch.begin(), batch.end(), next);
      next += static_cast<std::uint32_t>(size);
    }
    return batches;
  }

  // Spreads items over the batches: takes them by decreasing size and puts each into the batch with
  // room that stays least loaded, relative to the batch's share of the window by size. The first
  // `together` items go to the first batches instead, one per bin.
  Batches spread(std::size_t together) const {
    Batches batches(sizes_.size());
    std::vector<double> loads(sizes_.size() * window_.dimensions, 0.0);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::size_t bins = window_.ranks * window_.microbatches;
      const std::size_t batch = i < together ? i / bins : lightest(batches, loads, order_[i]);
      for (std::size_t k = 0; k < window_.dimensions; ++k) {
        loads[batch * window_.dimensions + k] += cost(order_[i])[k];
      }
      batches[batch].push_back(order_[i]);
    }
    for (auto& batch : batches) std::sort(batch.begin(), batch.end());
    return batches;
  }

  // Returns the number of items that exceed a bin's mean load; at most one for each bin of the
  // window.
  std::size_t dominant_samples() const {
    const std::size_t bins = window_.ranks * window_.microbatches;
    const double share =
        static_cast<double>(window_.items()) / static_cast<double>(bins * sizes_.size());
    const auto end = std::find_if(order_.begin(), order_.end(),
                                  [&](std::uint32_t item) { return size_of(item) <= share; });
    return std::min(static_cast<std::size_t>(end - order_.begin()), bins * sizes_.size());
  }

  // Returns the most that any batch holds of a resource.
  std::int64_t most_held(const Batches& batches, std::size_t resource) const {
    std::int64_t most = 0;
    for (const auto& batch : batches) {
      std::int64_t held = 0;
      for (const std::uint32_t item : batch) held += window_.size(item, resource);
      most = std::max(most, held);
    }
    return most;
  }

  // Returns whether the batches can be packed under the caps, and as easily as the drawn ones.
  bool stay_packable(const Batches& batches) const {
    const std::size_t bins = window_.ranks * window_.microbatches;
    const bool fit = std::all_of(batches.begin(), batches.end(), [&](const auto& batch) {
      return window_.resources.empty() || bins_by_first_fit(window_, batch) <= bins;
    });
    if (!fit) return false;
    const Batches drawn = as_drawn();
    for (std::size_t r = 0; r < window_.resources.size(); ++r) {
      const double fullest =
          kFullest * static_cast<double>(bins) * static_cast<double>(window_.resources[r].cap);
      const std::int64_t most = most_held(batches, r);
      if (most > most_held(drawn, r) && static_cast<double>(most) > fullest) return false;
    }
    return true;
  }

  double seconds(const Batches& batches) const {
    double sum = 0;
    for (const auto& batch : batches) sum += lower_bound(problem_of(batch));
    return sum;
  }

  std::size_t count_moved(const Batches& batches) const {
    std::size_t moved = 0;
    std::size_t first = 0;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      for (const std::uint32_t item : batches[b]) {
        if (item < first || item >= first + sizes_[b]) ++moved;
      }
      first += sizes_[b];
    }
    return moved;
  }

 private:
  const double* cost(std::uint32_t item) const { return &window_.costs[item * window_.dimensions]; }

  // Returns the cost relative to the mean item, in the dimension where this is largest.
  double size_of(std::uint32_t item) const {
    double size = 0;
    for (std::size_t k = 0; k < means_.size(); ++k) {
      if (means_[k] > 0) size = std::max(size, cost(item)[k] / means_[k]);
    }
    return size;
  }

  std::size_t lightest(const Batches& batches, const std::vector<double>& loads,
                       std::uint32_t item) const {
    std::size_t best = sizes_.size();
    double best_load = 0;
    for (std::size_t b = 0; b < sizes_.size(); ++b) {
      if (batches[b].size() == sizes_[b]) continue;
      double load = 0;
      for (std::size_t k = 0; k < means_.size(); ++k) {
        const double entitled = means_[k] * static_cast<double>(sizes_[b]);
        if (entitled <= 0) continue;
        load = std::max(load, (loads[b * means_.size() + k] + cost(item)[k]) / entitled);
      }
      if (best == sizes_.size() || load < best_load) {
        best = b;
        best_load = load;
      }
    }
    return best;
  }

  BalanceProblem problem_of(const std::vector<std::uint32_t>& batch) const {
    BalanceProblem problem = {.dimensions = window_.dimensions,
                              .resources = window_.resources,
                              .ranks = window_.ranks,
                              .microbatches = window_.microbatches,
                              .rank_slowdowns = window_.rank_slowdowns,
                              .objective = window_.objective};
    for (const std::uint32_t item : batch) {
      problem.costs.insert(problem.costs.end(), cost(item), cost(item) + window_.dimensions);
      for (std::size_t r = 0; r < window_.resources.size(); ++r) {
        problem.sizes.push_back(window_.size(item, r));
      }
    }
    return problem;
  }

  const BalanceProblem& window_;
  const std::vector<std::size_t>& sizes_;
  std::vector<std::uint32_t> order_;  // items, largest first
  std::vector<double> means_;         // mean cost of an item, by dimension
};

}  // namespace

Result<Composition> compose_batches(const BalanceProblem& window,
                                    const std::vector<std::size_t>& batch_sizes) {
  ISOCOST_TRY(validate(window));
  ISOCOST_TRY(validate_sizes(window, batch_sizes));
  const Composer composer(window, batch_sizes);
  Composition best{.batches = composer.as_drawn()};
  best.seconds_before = best.seconds_after = composer.seconds(best.batches);
  if (batch_sizes.size() < 2) return best;
  for (const std::size_t together : {std::size_t{0}, composer.dominant_samples()}) {
    Batches batches = composer.spread(together);
    if (!composer.stay_packable(batches)) continue;
    const double seconds = composer.seconds(batches);
    if (seconds >= best.seconds_after * (1 - kSmallestWindowGain)) continue;
    best.batches = std::move(batches);
    best.seconds_after = seconds;
  }
  best.moved = composer.count_moved(best.batches);
  return best;
}

}  // namespace isocost
