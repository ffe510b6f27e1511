#include "balancer/partition/internal/tile_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "balancer/partition/internal/progress.h"
#include "base/random.h"

namespace isocost {
namespace {

// Number of random partners. The most promising one is tried.
constexpr int kCandidates = 8;
// The descent ends after this many pairs without a gain, for each bin above the target.
constexpr std::size_t kPatience = 16;
// When a bin passes on its excess, the giver's excess counts this many times as much as the
// taker's, and their sum may grow by this factor.
constexpr double kGiverWeight = 100;
constexpr double kMostPassedOn = 4;
constexpr double kSmallestExcessGain = 1e-9;
// Least gain in a window: where the target can be reached, the excess falls faster.
constexpr double kLeastExcessProgress = 0.25;

class TileSearch {
 public:
  TileSearch(const Partition& problem, const EvenOutLimits& limits, BinStates& bins)
      : problem_(problem),
        target_(limits.target),
        inverse_(1 / limits.target),
        work_(limits.work),
        bins_(bins),
        excess_(bins.size(), 0.0) {
    for (std::size_t b = 0; b < bins_.size(); ++b) account(b);
    progress_ = Progress(limits.stall_window, kLeastExcessProgress, work_, total());
  }

  void run() {
    descend();
    while (!finished()) {
      const double before = total();
      journal_.clear();
      pass_on();
      descend();
      if (total() > before * (1 - kSmallestExcessGain)) undo();
    }
  }

 private:
  bool finished() {
    return work_ <= 0 || over_.empty() || progress_.stalled(work_, [this] { return total(); });
  }

  double over(double load, double slowdown) const {
    const double excess = std::max(0.0, slowdown * load * inverse_ - 1);
    return excess * excess;
  }

  void account(std::size_t bin) {
    double sum = 0;
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      sum += over(bins_.load(bin)[k], problem_.slowdown(bin));
    }
    excess_[bin] = sum;
    if (sum > 0) {
      over_.insert(bin);
    } else {
      over_.erase(bin);
    }
  }

  double total() const {
    double sum = 0;
    for (const std::size_t bin : over_) sum += excess_[bin];
    return sum;
  }

  // Returns the excess of two bins if their loads could be divided exactly by their rates.
  double shared_excess(std::size_t a, std::size_t b) const {
    const double rate = 1 / problem_.slowdown(a) + 1 / problem_.slowdown(b);
    double sum = 0;
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      sum += 2 * over((bins_.load(a)[k] + bins_.load(b)[k]) / rate, 1);
    }
    return sum;
  }

  std::size_t random_partner(std::size_t bin) {
    const std::size_t other = random_.below(bins_.size() - 1);
    return other < bin ? other : other + 1;
  }

  std::size_t most_promising_partner(std::size_t bin) {
    std::size_t best = random_partner(bin);
    double best_change = shared_excess(bin, best) - excess_[best];
    for (int i = 1; i < kCandidates; ++i) {
      const std::size_t other = random_partner(bin);
      const double change = shared_excess(bin, other) - excess_[other];
      if (change < best_change) {
        best = other;
        best_change = change;
      }
    }
    return best;
  }

  std::size_t least_loaded_partner(std::size_t bin) {
    std::size_t best = random_partner(bin);
    for (int i = 1; i < kCandidates; ++i) {
      const std::size_t other = random_partner(bin);
      if (sum_of(other) < sum_of(best)) best = other;
    }
    return best;
  }

  double sum_of(std::size_t bin) const {
    double sum = 0;
    for (std::size_t k = 0; k < problem_.dimensions; ++k) sum += bins_.load(bin)[k];
    return sum * problem_.slowdown(bin);
  }

  // Pairs each bin above the target with a partner, in turn, until kPatience pairs for each bring
  // no gain.
  void descend() {
    std::size_t without_gain = 0;
    std::size_t next = 0;
    while (!finished() && without_gain < kPatience * over_.size()) {
      auto at = over_.lower_bound(next);
      if (at == over_.end()) at = over_.begin();
      const std::size_t bin = *at;
      next = bin + 1;
      const std::size_t partner = most_promising_partner(bin);
      const double now = excess_[bin] + excess_[partner];
      without_gain =
          divide(bin, partner, now * (1 - kSmallestExcessGain), 1) ? 0 : without_gain + 1;
    }
  }

  bool divide(std::size_t a, std::size_t b, double below, double weight) {
    // A load above these limits alone exceeds `below`.
    const SplitLimits limits{.first = target_ * (1 + std::sqrt(below / weight)),
                             .second = target_ * (1 + std::sqrt(below)),
                             .even = Evenness{inverse_, weight, below}};
    const auto found = bins_.split(a, b, limits, work_);
    if (!found) return false;
    journal_.emplace_back(a, bins_.items(a));
    journal_.emplace_back(b, bins_.items(b));
    bins_.apply(a, b, *found);
    account(a);
    account(b);
    return true;
  }

  // Passes the excess of a random bin above the target to another bin.
  void pass_on() {
    auto at = over_.lower_bound(random_.below(bins_.size()));
    if (at == over_.end()) at = over_.begin();
    const std::size_t giver = *at;
    const std::size_t taker = least_loaded_partner(giver);
    divide(giver, taker, kMostPassedOn * (excess_[giver] + excess_[taker]), kGiverWeight);
  }

  void undo() {
    for (auto entry = journal_.rbegin(); entry != journal_.rend(); ++entry) {
      bins_.replace(entry->first, std::move(entry->second));
      account(entry->first);
    }
    journal_.clear();
  }

  const Partition& problem_;
  double target_;
  double inverse_;
  std::int64_t work_;
  BinStates& bins_;
  std::vector<double> excess_;  // [bins], sum of squares of the load above the target
  std::set<std::size_t> over_;  // bins with positive excess
  std::vector<std::pair<std::size_t, std::vector<std::uint32_t>>> journal_;
  Progress progress_{0, 0, 0, 0};
  Random random_{0xe7e4};  // a fixed seed: one problem, one plan
};

}  // namespace

void even_out(const Partition& problem, const EvenOutLimits& limits, BinStates& bins) {
  if (limits.target <= 0 || bins.size() < 2) return;
  const double before = bins.makespan();
  Bins kept;
  for (std::size_t b = 0; b < bins.size(); ++b) kept.push_back(bins.items(b));
  TileSearch(problem, limits, bins).run();
  if (bins.makespan() <= before) return;
  for (std::size_t b = 0; b < kept.size(); ++b) bins.replace(b, std::move(kept[b]));
}

}  // namespace isocost
