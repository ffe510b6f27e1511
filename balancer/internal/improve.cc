#include "balancer/internal/improve.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "balancer/internal/subsets.h"
#include "base/random.h"

namespace isocost {
namespace {

// An improvement must exceed the rounding of sums, or two plans could take turns for ever.
constexpr double kSmallestGain = 1e-12;
// Divisions looked at that count as one pair, where a pair is costlier than usual.
constexpr std::int64_t kStepsPerWork = 1024;

class Search {
 public:
  Search(const Partition& problem, const ImproveLimits& limits, Bins& bins)
      : problem_(problem),
        target_(limits.target),
        enough_(limits.enough),
        work_(limits.work),
        polish_(limits.polish),
        bins_(bins),
        states_(bins.size()) {
    choose_key_dimension();
    for (std::size_t b = 0; b < bins_.size(); ++b) {
      weigh(b);
      order_.emplace_back(states_[b].largest, b);
    }
    std::sort(order_.begin(), order_.end());
  }

  void run() {
    if (bins_.size() < 2) return;
    bool polishing = false;
    while (work_ > 0 && order_.back().first > target_) {
      if (!polishing && order_.back().first <= enough_) {
        polishing = true;
        work_ = std::min(work_, polish_);
      }
      if (!relieve_worst() && !shake()) return;
    }
  }

 private:
  struct State {
    std::array<double, kMaxDimensions> load{};
    double largest = 0;
    Subsets subsets;
    bool built = false;
  };
  struct Found {
    std::size_t partner;
    Split split;
  };

  // The dimension with most to share out is the one whose window is narrowest.
  void choose_key_dimension() {
    std::array<double, kMaxDimensions> sum{};
    for (std::size_t i = 0; i < problem_.items(); ++i) {
      for (std::size_t k = 0; k < problem_.dimensions; ++k) sum[k] += problem_.cost(i)[k];
    }
    const auto end = sum.begin() + static_cast<std::ptrdiff_t>(problem_.dimensions);
    key_dimension_ = static_cast<std::size_t>(std::max_element(sum.begin(), end) - sum.begin());
  }

  void weigh(std::size_t bin) {
    State& state = states_[bin];
    state.load = {};
    for (const std::uint32_t item : bins_[bin]) {
      for (std::size_t k = 0; k < problem_.dimensions; ++k) state.load[k] += problem_.cost(item)[k];
    }
    state.largest = problem_.speed(bin) * *std::max_element(state.load.begin(), state.load.end());
    state.built = false;
  }

  const Subsets& subsets(std::size_t bin) {
    State& state = states_[bin];
    if (!state.built) state.subsets.build(problem_, bins_[bin], key_dimension_);
    state.built = true;
    return state.subsets;
  }

  bool hopeless(std::size_t a, std::size_t b, double limit) const {
    const double room = limit / problem_.speed(a) + limit / problem_.speed(b);
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      if (states_[a].load[k] + states_[b].load[k] >= room) return true;
    }
    return false;
  }

  std::optional<Split> split(std::size_t a, std::size_t b, double limit, double enough) {
    --work_;
    if (hopeless(a, b, limit)) return std::nullopt;
    std::int64_t steps = 0;
    const Pair pair{subsets(a), subsets(b), problem_.speed(a), problem_.speed(b)};
    auto found = best_split(problem_, pair, key_dimension_, limit, enough, steps);
    work_ -= steps / kStepsPerWork;
    return found;
  }

  // Lightest partners first; halfway to the target is enough, else the best of all is taken.
  bool relieve_worst() {
    const auto [worst_load, worst] = order_.back();
    const double enough = target_ + kAcceptFraction * (worst_load - target_);
    double limit = worst_load * (1 - kSmallestGain);
    std::optional<Found> best;
    for (std::size_t i = 0; i + 1 < order_.size() && work_ > 0; ++i) {
      const std::size_t partner = order_[i].second;
      const auto found = split(worst, partner, limit, enough);
      if (!found) continue;
      best = Found{partner, *found};
      limit = found->value;
      if (limit <= enough) break;
    }
    if (!best) return false;
    apply(worst, best->partner, best->split);
    return true;
  }

  // Other pairs swap an item each below the makespan until the worst bin gains by one of them.
  bool shake() {
    const auto [worst_load, worst] = order_.back();
    const double limit = worst_load * (1 - kSmallestGain);
    while (work_ > 0) {
      const std::size_t a = random_.below(bins_.size());
      const std::size_t b = random_.below(bins_.size());
      --work_;
      if (a == b || a == worst || b == worst || !swap_random(a, b, limit)) continue;
      for (const std::size_t partner : {a, b}) {
        if (const auto found = split(worst, partner, limit, target_)) {
          apply(worst, partner, *found);
          return true;
        }
      }
    }
    return false;
  }

  bool swap_random(std::size_t a, std::size_t b, double limit) {
    auto& in_a = bins_[a][random_.below(bins_[a].size())];
    auto& in_b = bins_[b][random_.below(bins_[b].size())];
    if (!swap_allowed(a, b, in_a, in_b, limit)) return false;
    std::swap(in_a, in_b);
    update(a);
    update(b);
    return true;
  }

  bool swap_allowed(std::size_t a, std::size_t b, std::uint32_t in_a, std::uint32_t in_b,
                    double limit) const {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      const double change = problem_.cost(in_b)[k] - problem_.cost(in_a)[k];
      if (problem_.speed(a) * (states_[a].load[k] + change) >= limit ||
          problem_.speed(b) * (states_[b].load[k] - change) >= limit) {
        return false;
      }
    }
    if (problem_.bytes.empty()) return true;
    const std::int64_t change = problem_.bytes[in_b] - problem_.bytes[in_a];
    return bytes(a) + change <= problem_.bytes_cap && bytes(b) - change <= problem_.bytes_cap;
  }

  std::int64_t bytes(std::size_t bin) const {
    std::int64_t sum = 0;
    for (const std::uint32_t item : bins_[bin]) sum += problem_.bytes[item];
    return sum;
  }

  void apply(std::size_t a, std::size_t b, const Split& split) {
    const Subsets& first = subsets(a);
    const Subsets& second = subsets(b);
    std::vector<std::uint32_t> to_a = first.fixed_items();
    std::vector<std::uint32_t> to_b = second.fixed_items();
    for (std::size_t i = 0; i < first.free_items().size(); ++i) {
      ((split.kept_mask >> i & 1U) != 0 ? to_a : to_b).push_back(first.free_items()[i]);
    }
    for (std::size_t i = 0; i < second.free_items().size(); ++i) {
      ((split.got_mask >> i & 1U) != 0 ? to_a : to_b).push_back(second.free_items()[i]);
    }
    bins_[a] = std::move(to_a);
    bins_[b] = std::move(to_b);
    update(a);
    update(b);
  }

  void update(std::size_t bin) {
    const std::pair old_key(states_[bin].largest, bin);
    order_.erase(std::lower_bound(order_.begin(), order_.end(), old_key));
    std::sort(bins_[bin].begin(), bins_[bin].end());
    weigh(bin);
    const std::pair new_key(states_[bin].largest, bin);
    order_.insert(std::lower_bound(order_.begin(), order_.end(), new_key), new_key);
  }

  static constexpr double kAcceptFraction = 0.5;

  const Partition& problem_;
  double target_;
  double enough_;
  std::int64_t work_;
  std::int64_t polish_;
  Bins& bins_;
  std::vector<State> states_;
  std::vector<std::pair<double, std::size_t>> order_;  // bins by largest load, ascending
  std::size_t key_dimension_ = 0;
  Random random_{0x15c057};  // a fixed seed: one problem, one plan
};

// A makespan this near the bound meets it: the rest is rounding.
constexpr double kMeetsBound = 1e-9;
constexpr std::int64_t kPolishShare = 16;

}  // namespace

ImproveLimits improve_limits(double bound, double enough_gap, std::int64_t rounds,
                             std::size_t bins) {
  const std::int64_t work = rounds * static_cast<std::int64_t>(bins);
  return {.target = bound * (1 + kMeetsBound),
          .enough = bound * (1 + enough_gap),
          .work = work,
          .polish = work / kPolishShare};
}

void improve_bins(const Partition& problem, const ImproveLimits& limits, Bins& bins) {
  Search(problem, limits, bins).run();
}

}  // namespace isocost
