#include "balancer/partition/internal/construct.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "balancer/partition/internal/local_search.h"

namespace isocost {
namespace {

constexpr std::int64_t kPackingRounds = 1000;
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

// Bins are kept in blocks. A block's smallest loads bound the score of its best bin, so that only a
// few blocks are searched for an item. The decisions equal those of a search over all bins.
class Lpt {
 public:
  explicit Lpt(const Partition& problem)
      : problem_(problem),
        blocks_((problem.bins + kBlock - 1) / kBlock),
        loads_(problem.dimensions * problem.bins, 0.0),
        block_loads_(problem.dimensions * blocks_, 0.0),
        block_slowdowns_(blocks_, std::numeric_limits<double>::infinity()),
        block_scores_(blocks_),
        block_squares_(blocks_),
        held_(problem.bins),
        bins_(problem.bins),
        missing_(problem.bins * problem.min_items) {
    for (std::size_t b = 0; b < problem.bins; ++b) {
      block_slowdowns_[b / kBlock] = std::min(block_slowdowns_[b / kBlock], problem.slowdown(b));
    }
  }

  std::optional<Bins> run() {
    std::size_t remaining = problem_.items();
    for (const std::uint32_t item : largest_first(problem_)) {
      // If only as many items are left as bins need, they may only go to those bins.
      only_missing_ = remaining == missing_;
      const std::size_t bin = best_bin(item);
      if (bin == kNone) return std::nullopt;
      assign(item, bin);
      --remaining;
    }
    for (auto& bin : bins_) std::sort(bin.begin(), bin.end());
    return std::move(bins_);
  }

 private:
  static constexpr std::size_t kBlock = 16;

  // A bin with the item added. Ranked by the largest load, the sum of squares, then the index.
  struct Choice {
    std::size_t bin = kNone;
    double score = std::numeric_limits<double>::infinity();
    double squares = 0;
  };

  // Computes lower bounds on the scores of each block's bins. Loops by dimension so that it
  // vectorises.
  void score_blocks(const double* cost) {
    std::fill(block_scores_.begin(), block_scores_.end(), 0.0);
    std::fill(block_squares_.begin(), block_squares_.end(), 0.0);
    double* scores = block_scores_.data();
    double* squares = block_squares_.data();
    const double* slowdowns = block_slowdowns_.data();
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      const double* load = &block_loads_[k * blocks_];
      for (std::size_t i = 0; i < blocks_; ++i) {
        const double with = slowdowns[i] * (load[i] + cost[k]);
        scores[i] = scores[i] < with ? with : scores[i];
        squares[i] += with * with;
      }
    }
  }

  std::size_t best_bin(std::uint32_t item) {
    score_blocks(problem_.cost(item));
    std::size_t first = 0;
    for (std::size_t i = 1; i < blocks_; ++i) {
      const bool tie = block_scores_[i] == block_scores_[first];
      if (block_scores_[i] < block_scores_[first] ||
          (tie && block_squares_[i] < block_squares_[first])) {
        first = i;
      }
    }
    Choice best;
    search_block(first, item, best);
    for (std::size_t i = 0; i < blocks_; ++i) {
      if (block_scores_[i] <= best.score && i != first && may_win(i, best)) {
        search_block(i, item, best);
      }
    }
    return best.bin;
  }

  // Returns whether a block may hold the best bin. Bins often have equal loads, for example while
  // they are empty: then squares and indexes decide.
  bool may_win(std::size_t block, const Choice& best) const {
    return block_scores_[block] < best.score || block_squares_[block] < best.squares ||
           (block_squares_[block] == best.squares && block * kBlock < best.bin);
  }

  void search_block(std::size_t block, std::uint32_t item, Choice& best) const {
    const double* cost = problem_.cost(item);
    const std::size_t end = std::min((block + 1) * kBlock, problem_.bins);
    for (std::size_t b = block * kBlock; b < end; ++b) {
      Choice choice{.bin = b, .score = 0, .squares = 0};
      for (std::size_t k = 0; k < problem_.dimensions; ++k) {
        const double with = problem_.slowdown(b) * (loads_[b * problem_.dimensions + k] + cost[k]);
        choice.score = std::max(choice.score, with);
        choice.squares += with * with;
      }
      if (choice.score > best.score || !is_open(b, item)) continue;
      const bool better = choice.score < best.score || choice.squares < best.squares ||
                          (choice.squares == best.squares && b < best.bin);
      if (better) best = choice;
    }
  }

  bool is_open(std::size_t bin, std::uint32_t item) const {
    if (only_missing_ && bins_[bin].size() >= problem_.min_items) return false;
    return problem_.has_room(held_[bin], item);
  }

  void assign(std::uint32_t item, std::size_t bin) {
    const std::size_t block = bin / kBlock;
    const std::size_t end = std::min((block + 1) * kBlock, problem_.bins);
    for (std::size_t k = 0; k < problem_.dimensions; ++k) {
      loads_[bin * problem_.dimensions + k] += problem_.cost(item)[k];
      double smallest = std::numeric_limits<double>::infinity();
      for (std::size_t b = block * kBlock; b < end; ++b) {
        smallest = std::min(smallest, loads_[b * problem_.dimensions + k]);
      }
      block_loads_[k * blocks_ + block] = smallest;
    }
    problem_.add(item, held_[bin]);
    if (bins_[bin].size() < problem_.min_items) --missing_;
    bins_[bin].push_back(item);
  }

  const Partition& problem_;
  std::size_t blocks_;
  std::vector<double> loads_;            // [bin][dimension]
  std::vector<double> block_loads_;      // [dimension][block], smallest load of its bins
  std::vector<double> block_slowdowns_;  // smallest slowdown of its bins
  std::vector<double> block_scores_;
  std::vector<double> block_squares_;
  std::vector<Sizes> held_;
  Bins bins_;
  std::size_t missing_;  // number of items that bins still need to reach min_items
  bool only_missing_ = false;
};

// Returns the amounts that the items hold, [items × resources], scaled to the first resource, so
// that a bin may hold equally much of each.
std::vector<double> comparable_sizes(const Partition& problem) {
  const auto cap = [&problem](std::size_t r) {
    return static_cast<double>(std::max<std::int64_t>(problem.caps[r], 1));
  };
  std::vector<double> sizes(problem.sizes.begin(), problem.sizes.end());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t r = i % problem.resources;
    if (r > 0) sizes[i] *= cap(0) / cap(r);
  }
  return sizes;
}

// Fills bins that first fit left empty. There are at least as many items as bins, so other bins can
// give one.
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

std::optional<Bins> lpt_bins(const Partition& problem) { return Lpt(problem).run(); }

std::optional<Bins> first_fit_bins(const Partition& problem) {
  if (problem.resources == 0 || problem.min_items > 1) return std::nullopt;
  const std::vector<double> sizes = comparable_sizes(problem);
  std::vector<double> largest(problem.items(), 0.0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    double& of_item = largest[i / problem.resources];
    of_item = std::max(of_item, sizes[i]);
  }
  Bins bins(problem.bins);
  std::vector<Sizes> held(problem.bins);
  for (const std::uint32_t item : descending_by(largest)) {
    const auto fits = std::find_if(held.begin(), held.end(), [&](const Sizes& of_bin) {
      return problem.has_room(of_bin, item);
    });
    if (fits == held.end()) return std::nullopt;
    problem.add(item, *fits);
    bins[static_cast<std::size_t>(fits - held.begin())].push_back(item);
  }
  fill_empty(bins);
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  return bins;
}

std::optional<Bins> packed_bins(const Partition& problem) {
  if (problem.resources == 0) return std::nullopt;
  const std::vector<double> sizes = comparable_sizes(problem);
  const Partition packing{.dimensions = problem.resources,
                          .bins = problem.bins,
                          .min_items = problem.min_items,
                          .costs = sizes};
  auto bins = lpt_bins(packing);
  if (!bins) return std::nullopt;
  const auto cap = static_cast<double>(problem.caps[0]);
  improve_bins(packing,
               {.target = cap,
                .enough = cap,
                .work = kPackingRounds * static_cast<std::int64_t>(problem.bins),
                .polish = 0},
               *bins);
  if (!is_feasible(problem, *bins)) return std::nullopt;
  return bins;
}

std::optional<Bins> construct_bins(const Partition& problem) {
  if (auto bins = lpt_bins(problem)) return bins;
  if (auto bins = first_fit_bins(problem)) return bins;
  return packed_bins(problem);
}

}  // namespace isocost
