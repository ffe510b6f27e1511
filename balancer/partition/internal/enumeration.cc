#include "balancer/partition/internal/enumeration.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace isocost {
namespace {

constexpr std::size_t kMostItems = 64;

using Load = std::array<double, kMaxLoadDimensions>;

class Enumeration {
 public:
  Enumeration(const Partition& problem, const ExactLimits& limits, std::int64_t nodes)
      : problem_(problem),
        per_rank_(limits.bins_per_rank),
        nodes_(nodes),
        order_(problem.items()),
        bins_(problem.bins),
        held_(problem.bins),
        loads_(problem.bins / per_rank_, Load{}),
        items_(problem.bins / per_rank_, 0),
        missing_(problem.bins * problem.min_items) {
    aim_below(limits.below > 0 ? limits.below : std::numeric_limits<double>::infinity());
    sort_items();
    sum_rest();
  }

  ExactAnswer run() && {
    descend(0);
    return {.bins = std::move(best_), .finished = nodes_ >= 0};
  }

 private:
  // Totals and minima over the items from a position of the order onwards.
  struct Rest {
    Load sum{};
    Load smallest{};
    Sizes sizes{};
    Sizes smallest_sizes{};
  };

  void aim_below(double makespan) {
    below_ = makespan;
    limit_ = makespan * (1 - kSumRounding);
  }

  // Sorts the items so that those with the largest share of any dimension or resource come first.
  void sort_items() {
    Load sum{};
    std::array<double, kMaxResources> sizes{};
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (std::size_t k = 0; k < problem_.dimensions; ++k) sum[k] += problem_.cost(i)[k];
      for (std::size_t r = 0; r < problem_.resources; ++r) {
        sizes[r] += static_cast<double>(problem_.size(i, r));
      }
    }
    std::vector<double> shares(order_.size(), 0.0);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (std::size_t r = 0; r < problem_.resources; ++r) {
        const auto size = static_cast<double>(problem_.size(i, r));
        if (sizes[r] > 0) shares[i] = std::max(shares[i], size / sizes[r]);
      }
      for (std::size_t k = 0; k < problem_.dimensions; ++k) {
        if (sum[k] > 0) shares[i] = std::max(shares[i], problem_.cost(i)[k] / sum[k]);
      }
    }
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [&shares](std::uint32_t a, std::uint32_t b) { return shares[a] > shares[b]; });
  }

  void sum_rest() {
    rest_.resize(order_.size() + 1);
    rest_.back().smallest.fill(std::numeric_limits<double>::infinity());
    rest_.back().smallest_sizes.fill(kNoCap);
    for (std::size_t at = order_.size(); at-- > 0;) {
      Rest& rest = rest_[at] = rest_[at + 1];
      const double* cost = problem_.cost(order_[at]);
      for (std::size_t k = 0; k < problem_.dimensions; ++k) {
        rest.sum[k] += cost[k];
        rest.smallest[k] = std::min(rest.smallest[k], cost[k]);
      }
      problem_.add(order_[at], rest.sizes);
      for (std::size_t r = 0; r < problem_.resources; ++r) {
        rest.smallest_sizes[r] = std::min(rest.smallest_sizes[r], problem_.size(order_[at], r));
      }
    }
  }

  void descend(std::size_t position) {
    if (position == order_.size()) return accept();
    if (order_.size() - position < missing_ || !rest_has_room(rest_[position])) return;
    for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
      if (is_equivalent_to_earlier(bin)) continue;
      if (--nodes_ < 0) return;
      try_in(bin, position);
      if (nodes_ < 0) return;
    }
  }

  void try_in(std::size_t bin, std::size_t position) {
    const std::uint32_t item = order_[position];
    if (!problem_.has_room(held_[bin], item)) return;
    Load& load = loads_[bin / per_rank_];
    const Load before = load;  // kept, because subtraction would round
    bool fits = true;
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      load[k] += problem_.cost(item)[k];
      fits = fits && problem_.slowdown(bin) * load[k] < limit_;
    }
    if (fits) {
      const std::size_t was_missing = bins_[bin].size() < problem_.min_items ? 1 : 0;
      missing_ -= was_missing;
      ++items_[bin / per_rank_];
      problem_.add(item, held_[bin]);
      bins_[bin].push_back(item);
      descend(position + 1);
      bins_[bin].pop_back();
      problem_.remove(item, held_[bin]);
      --items_[bin / per_rank_];
      missing_ += was_missing;
    }
    load = before;
  }

  // Returns whether an earlier bin is equivalent. Empty bins of a rank are equivalent, and so are
  // empty ranks of equal slowdown: only the first is tried.
  bool is_equivalent_to_earlier(std::size_t bin) const {
    if (!bins_[bin].empty()) return false;
    const std::size_t rank = bin / per_rank_;
    for (std::size_t other = rank * per_rank_; other < bin; ++other) {
      if (bins_[other].empty()) return true;
    }
    if (items_[rank] > 0) return false;
    for (std::size_t other = 0; other < rank; ++other) {
      const bool alike = problem_.slowdown(other * per_rank_) == problem_.slowdown(bin);
      if (items_[other] == 0 && alike) return true;
    }
    return false;
  }

  // Returns whether the rest has room. Room that is too small for the smallest item does not count.
  bool rest_has_room(const Rest& rest) const {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      double room = 0;
      for (std::size_t rank = 0; rank < loads_.size(); ++rank) {
        const double left =
            limit_ / problem_.slowdown(rank * per_rank_) * (1 + kRoomSlack) - loads_[rank][k];
        if (left >= rest.smallest[k]) room += left;
      }
      if (room < rest.sum[k] * (1 - kRoomSlack)) return false;
    }
    for (std::size_t r = 0; r < problem_.resources; ++r) {
      std::int64_t unplaced = rest.sizes[r];
      for (const Sizes& held : held_) {
        const std::int64_t left = problem_.caps[r] - held[r];
        if (left >= rest.smallest_sizes[r]) unplaced -= std::min(left, unplaced);
      }
      if (unplaced > 0) return false;
    }
    return true;
  }

  void accept() {
    if (missing_ > 0) return;
    Bins sorted = bins_;
    for (auto& bin : sorted) std::sort(bin.begin(), bin.end());
    const double makespan = grouped_makespan(problem_, per_rank_, sorted);
    if (makespan >= below_) return;
    aim_below(makespan);
    best_ = std::move(sorted);
  }

  const Partition& problem_;
  std::size_t per_rank_;
  std::int64_t nodes_;
  std::vector<std::uint32_t> order_;
  std::vector<Rest> rest_;
  Bins bins_;                       // bins of the current node
  std::vector<Sizes> held_;         // [bins]
  std::vector<Load> loads_;         // [ranks]
  std::vector<std::size_t> items_;  // [ranks]
  std::size_t missing_;             // number of items that bins need to reach min_items
  double below_ = 0;
  double limit_ = 0;  // `below_` minus the rounding of sums
  std::optional<Bins> best_;
};

}  // namespace

ExactAnswer enumerate_bins(const Partition& problem, const ExactLimits& limits,
                           std::int64_t nodes) {
  if (problem.items() > kMostItems) return {};
  return Enumeration(problem, limits, nodes).run();
}

}  // namespace isocost
