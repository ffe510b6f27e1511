#include "balancer/partition/internal/local_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "balancer/partition/internal/bin_states.h"
#include "balancer/partition/internal/progress.h"
#include "balancer/partition/internal/tile_search.h"
#include "base/random.h"

namespace isocost {
namespace {

// An improvement must exceed the rounding of sums, or two plans could alternate forever.
constexpr double kSmallestLoadGain = 1e-12;
// Number of partners that a bin tries, lightest first. If these do not help, randomly changed bins
// serve as well as all the others. There may be thousands of them.
constexpr std::size_t kMaxPartners = 64;
// A step that covers this part of the way from the makespan to the target is accepted at once.
constexpr double kAcceptFraction = 0.5;
constexpr double kLeastLoadProgress = 1.0 / 32;

class Search {
 public:
  Search(const Partition& problem, const ImproveLimits& limits, BinStates& bins)
      : problem_(problem),
        target_(limits.target),
        enough_(limits.enough),
        work_(limits.work),
        polish_(limits.polish),
        bins_(bins),
        progress_(limits.stall_window, kLeastLoadProgress, work_, distance()) {}

  void run() {
    while (!exhausted() && bins_.makespan() > target_) {
      if (!polishing_ && bins_.makespan() <= enough_) {
        polishing_ = true;
        work_ = std::min(work_, polish_);
      }
      if (!relieve_worst() && !exchange_contents() && !perturb()) break;
    }
    while (bins_.makespan() > target_ && exchange_contents()) {
    }
  }

 private:
  struct Found {
    std::size_t partner;
    Split split;
  };

  double distance() const { return bins_.makespan() - target_; }

  // Returns whether the budget is spent. The last step has a budget of its own.
  bool exhausted() {
    return work_ <= 0 || (!polishing_ && progress_.stalled(work_, [this] { return distance(); }));
  }

  static SplitLimits below(double limit, double enough) {
    return {.first = limit, .second = limit, .enough = enough};
  }

  // Tries the lightest partners first. Takes the first division that is accepted at once, else the
  // best one.
  bool relieve_worst() {
    const auto& order = bins_.order();
    const auto [worst_load, worst] = order.back();
    SplitLimits limits = below(worst_load * (1 - kSmallestLoadGain),
                               target_ + kAcceptFraction * (worst_load - target_));
    std::optional<Found> best;
    const std::size_t partners = std::min(order.size() - 1, kMaxPartners);
    for (std::size_t i = 0; i < partners && work_ > 0; ++i) {
      const std::size_t partner = order[i].bin;
      const auto found = bins_.split(worst, partner, limits, work_);
      if (!found) continue;
      best = Found{partner, *found};
      limits.first = limits.second = found->value;
      if (found->value <= limits.enough) break;
    }
    if (!best) return false;
    bins_.apply(worst, best->partner, best->split);
    return true;
  }

  // Exchanges the whole contents of the worst bin and a faster one. Divisions do not cover this if
  // some items are not free. If assigning the largest loads to the fastest bins would be better,
  // such a pair exists.
  bool exchange_contents() {
    if (problem_.slowdowns.empty()) return false;
    const auto [worst_load, worst] = bins_.order().back();
    const double limit = worst_load * (1 - kSmallestLoadGain);
    --work_;
    for (const auto& [load, other] : bins_.order()) {
      const double slowdown = problem_.slowdown(other);
      if (worst_load / problem_.slowdown(worst) * slowdown >= limit ||
          load / slowdown * problem_.slowdown(worst) >= limit) {
        continue;
      }
      const std::size_t partner = other;  // the order changes below
      auto items = bins_.items(worst);
      bins_.replace(worst, bins_.items(partner));
      bins_.replace(partner, std::move(items));
      return true;
    }
    return false;
  }

  // Changes other pairs: each swaps one item, below the makespan, until the worst bin gains from
  // one of them.
  bool perturb() {
    const auto [worst_load, worst] = bins_.order().back();
    const double limit = worst_load * (1 - kSmallestLoadGain);
    while (!exhausted()) {
      const std::size_t a = random_.below(bins_.size());
      const std::size_t b = random_.below(bins_.size());
      --work_;
      if (a == b || a == worst || b == worst || !swap_random(a, b, limit)) continue;
      for (const std::size_t partner : {a, b}) {
        if (const auto found = bins_.split(worst, partner, below(limit, target_), work_)) {
          bins_.apply(worst, partner, *found);
          return true;
        }
      }
    }
    return false;
  }

  bool swap_random(std::size_t a, std::size_t b, double limit) {
    const std::size_t at_a = random_.below(bins_.items(a).size());
    const std::size_t at_b = random_.below(bins_.items(b).size());
    if (!swap_allowed(a, b, bins_.items(a)[at_a], bins_.items(b)[at_b], limit)) return false;
    bins_.swap_items(a, at_a, b, at_b);
    return true;
  }

  bool swap_allowed(std::size_t a, std::size_t b, std::uint32_t in_a, std::uint32_t in_b,
                    double limit) const {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      const double change = problem_.cost(in_b)[k] - problem_.cost(in_a)[k];
      if (problem_.slowdown(a) * (bins_.load(a)[k] + change) >= limit ||
          problem_.slowdown(b) * (bins_.load(b)[k] - change) >= limit) {
        return false;
      }
    }
    for (std::size_t r = 0; r < problem_.resources; ++r) {
      const std::int64_t change = problem_.size(in_b, r) - problem_.size(in_a, r);
      if (bins_.held(a)[r] + change > problem_.caps[r] ||
          bins_.held(b)[r] - change > problem_.caps[r]) {
        return false;
      }
    }
    return true;
  }

  const Partition& problem_;
  double target_;
  double enough_;
  std::int64_t work_;
  std::int64_t polish_;
  BinStates& bins_;
  Progress progress_;
  bool polishing_ = false;
  Random random_{0x15c057};  // a fixed seed: one problem, one plan
};

// A makespan this close to the bound meets it, up to rounding.
constexpr double kMeetsBound = 1e-9;
constexpr std::int64_t kPolishShare = 48;
constexpr std::int64_t kEvenOutShare = 2;
constexpr std::int64_t kEvenOutStallShare = 4;
// With more bins than this, the work no longer grows.
constexpr std::size_t kMostWorkedBins = 512;
// A search of at most this many pairs takes milliseconds, and is not cut short.
constexpr std::int64_t kShortSearch = 100'000;
constexpr double kStallPairsPerExchange = 512;

// Returns the stall window. The fewer items bins hold, the fewer exchanges two of them have, and
// the sooner none is left to find. Exchanges of one item for two, which are the most frequent, grow
// with the cube of the items.
std::int64_t stall_window(const Partition& problem, std::int64_t work) {
  if (work <= kShortSearch) return ImproveLimits{}.stall_window;
  const double items_per_bin =
      std::min(static_cast<double>(problem.items()) / static_cast<double>(problem.bins),
               static_cast<double>(Subsets::kFreeItems));
  return std::llround(kStallPairsPerExchange * items_per_bin * items_per_bin * items_per_bin);
}

}  // namespace

ImproveLimits improve_limits(double bound, double enough_gap, std::int64_t rounds,
                             const Partition& problem) {
  const std::int64_t work =
      rounds * static_cast<std::int64_t>(std::min(problem.bins, kMostWorkedBins));
  return {.target = bound * (1 + kMeetsBound),
          .enough = bound * (1 + enough_gap),
          .work = work,
          .polish = work / kPolishShare,
          .stall_window = stall_window(problem, work)};
}

void improve_bins(const Partition& problem, const ImproveLimits& limits, Bins& bins) {
  if (bins.size() < 2) return;
  BinStates states(problem, bins);
  if (limits.even_out && limits.work > 0 && states.makespan() > limits.target) {
    even_out(problem,
             {.target = limits.target,
              .work = limits.work / kEvenOutShare,
              .stall_window = limits.stall_window / kEvenOutStallShare},
             states);
  }
  Search(problem, limits, states).run();
}

}  // namespace isocost
