#include "balancer/partition/internal/pair_split.h"

#include <algorithm>

namespace isocost {

void Subsets::build(const Partition& problem, const std::vector<std::uint32_t>& items,
                    std::size_t key_dimension, Scratch& scratch) {
  dimensions_ = problem.dimensions;
  resources_ = problem.resources;
  choose_free(problem, items);
  tabulate(problem);
  sort(problem, key_dimension, scratch);
}

void Subsets::choose_free(const Partition& problem, const std::vector<std::uint32_t>& items) {
  free_ = items;
  fixed_.clear();
  fixed_load_ = {};
  fixed_sizes_ = {};
  if (items.size() <= kFreeItems) return;
  const auto size_of = [&problem](std::uint32_t item) {
    const double* cost = problem.cost(item);
    return *std::max_element(cost, cost + problem.dimensions);
  };
  std::stable_sort(free_.begin(), free_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return size_of(a) > size_of(b); });
  std::vector<std::uint32_t> spread;
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (next < kFreeItems && i == next * items.size() / kFreeItems) {
      spread.push_back(free_[i]);
      ++next;
      continue;
    }
    fixed_.push_back(free_[i]);
    problem.add(free_[i], fixed_sizes_);
    for (std::size_t k = 0; k < dimensions_; ++k) fixed_load_[k] += problem.cost(free_[i])[k];
  }
  free_ = std::move(spread);
}

void Subsets::tabulate(const Partition& problem) {
  const std::size_t masks = std::size_t{1} << free_.size();
  loads_.resize(masks * dimensions_);
  sizes_.resize(masks * resources_);
  std::fill_n(loads_.begin(), dimensions_, 0.0);
  std::fill_n(sizes_.begin(), resources_, 0);
  for (std::size_t i = 0; i < free_.size(); ++i) {
    const std::size_t bit = std::size_t{1} << i;
    const double* cost = problem.cost(free_[i]);
    for (std::size_t mask = 0; mask < bit; ++mask) {
      for (std::size_t k = 0; k < dimensions_; ++k) {
        loads_[(bit + mask) * dimensions_ + k] = loads_[mask * dimensions_ + k] + cost[k];
      }
      for (std::size_t r = 0; r < resources_; ++r) {
        sizes_[(bit + mask) * resources_ + r] =
            sizes_[mask * resources_ + r] + problem.size(free_[i], r);
      }
    }
  }
}

// Sorts the subsets. Each item doubles the list: the subsets without it and those with it are both
// sorted and are merged, from both ends at once. The merge has no branch on the keys, because such
// a branch would be unpredictable.
void Subsets::sort(const Partition& problem, std::size_t key_dimension, Scratch& merged) {
  const auto choose = [](bool first, const Entry& a, const Entry& b) {
    const auto mask = static_cast<std::uint32_t>(-static_cast<std::int32_t>(first));
    return Entry{first ? a.key : b.key, (a.mask & mask) | (b.mask & ~mask)};
  };
  const std::size_t masks = std::size_t{1} << free_.size();
  sorted_.resize(masks);
  merged.resize(masks);
  sorted_[0] = {0.0, 0};
  for (std::size_t i = 0; i < free_.size(); ++i) {
    const std::uint32_t bit = 1U << i;
    const double cost = problem.cost(free_[i])[key_dimension];
    const auto with = [&](const Entry& entry) { return Entry{entry.key + cost, entry.mask | bit}; };
    std::size_t low = 0;  // the smallest subsets left, without the item and with it
    std::size_t low_with = 0;
    std::size_t high = bit - 1;  // the largest ones
    std::size_t high_with = bit - 1;
    for (std::size_t out = 0; out < bit; ++out) {
      const Entry least = sorted_[low];
      const Entry least_with = with(sorted_[low_with]);
      const bool take = least.key <= least_with.key;
      merged[out] = choose(take, least, least_with);
      low += take ? 1 : 0;
      low_with += take ? 0 : 1;
      const Entry most = sorted_[high];
      const Entry most_with = with(sorted_[high_with]);
      const bool take_high = most.key > most_with.key;
      merged[std::size_t{2} * bit - 1 - out] = choose(take_high, most, most_with);
      high -= take_high ? 1 : 0;
      high_with -= take_high ? 0 : 1;
    }
    sorted_.swap(merged);
  }
}

namespace {

// Number of items of each mask. Without a flag for newer processors, std::popcount is a call.
constexpr auto kItemsOf = [] {
  std::array<std::uint8_t, std::size_t{1} << Subsets::kFreeItems> items{};
  for (std::size_t mask = 1; mask < items.size(); ++mask) {
    items[mask] = static_cast<std::uint8_t>(items[mask / 2] + mask % 2);
  }
  return items;
}();

// The state of one search for a split.
struct SplitSearch {
  const Partition& problem;
  const Pair& pair;
  SplitLimits limits;
  std::array<double, kMaxLoadDimensions> sum{};  // load of both bins together
  std::uint32_t all_first = 0;
  std::uint32_t all_second = 0;
  std::optional<Split> best;

  // Returns false if no division of the total load keeps both bins below their limits.
  bool prepare() {
    all_first = (1U << pair.first.free_items().size()) - 1;
    all_second = (1U << pair.second.free_items().size()) - 1;
    const double room = limits.first / pair.first_slowdown + limits.second / pair.second_slowdown;
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      sum[k] = pair.first.fixed_load()[k] + pair.first.load(all_first)[k] +
               pair.second.fixed_load()[k] + pair.second.load(all_second)[k];
      if (sum[k] >= room) return false;
    }
    return true;
  }

  bool counts_and_caps_allow(std::uint32_t kept, std::uint32_t got) const {
    const Subsets& first = pair.first;
    const Subsets& second = pair.second;
    const std::size_t moved = kItemsOf[kept] + kItemsOf[got];
    const std::size_t free_items = first.free_items().size() + second.free_items().size();
    const std::size_t in_first = moved + first.fixed_items().size();
    const std::size_t in_second = free_items - moved + second.fixed_items().size();
    if (in_first < problem.min_items || in_second < problem.min_items) return false;
    for (std::size_t r = 0; r < problem.resources; ++r) {
      const std::int64_t held =
          first.fixed_sizes()[r] + first.sizes(kept)[r] + second.sizes(got)[r];
      const std::int64_t left = second.fixed_sizes()[r] + first.sizes(all_first ^ kept)[r] +
                                second.sizes(all_second ^ got)[r];
      if (held > problem.caps[r] || left > problem.caps[r]) return false;
    }
    return true;
  }

  // Returns whether a division only exchanges the whole contents, which changes nothing if the
  // slowdowns are equal.
  bool only_exchanges_contents(std::uint32_t kept, std::uint32_t got) const {
    return pair.first_slowdown == pair.second_slowdown && kept == 0 && got == all_second &&
           pair.first.fixed_items().empty() && pair.second.fixed_items().empty();
  }

  void consider(std::uint32_t kept, std::uint32_t got) {
    double of_first = 0;
    double of_second = 0;
    const double* kept_load = pair.first.load(kept);
    const double* got_load = pair.second.load(got);
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      const double load = pair.first.fixed_load()[k] + kept_load[k] + got_load[k];
      of_first = std::max(of_first, pair.first_slowdown * load);
      of_second = std::max(of_second, pair.second_slowdown * (sum[k] - load));
      if (of_first >= limits.first || of_second >= limits.second) return;
    }
    if (!counts_and_caps_allow(kept, got) || only_exchanges_contents(kept, got)) return;
    limits.first = limits.second = std::max(of_first, of_second);
    best = Split{limits.first, kept, got};
  }

  void consider_evenness(Evenness& even, std::uint32_t kept, std::uint32_t got) {
    double value = 0;
    const double* kept_load = pair.first.load(kept);
    const double* got_load = pair.second.load(got);
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      const double load = pair.first.fixed_load()[k] + kept_load[k] + got_load[k];
      const double first = std::max(0.0, pair.first_slowdown * load * even.inverse_target - 1);
      const double second =
          std::max(0.0, pair.second_slowdown * (sum[k] - load) * even.inverse_target - 1);
      value += even.first_weight * (first * first) + second * second;
      if (value >= even.below) return;
    }
    if (!counts_and_caps_allow(kept, got) || only_exchanges_contents(kept, got)) return;
    even.below = value;
    best = Split{value, kept, got};
  }
};

}  // namespace

std::optional<Split> best_split(const Partition& problem, const Pair& pair,
                                std::size_t key_dimension, const SplitLimits& limits,
                                std::int64_t& steps) {
  SplitSearch search{.problem = problem, .pair = pair, .limits = limits, .best = {}};
  if (!search.prepare()) return std::nullopt;
  const auto& partner = pair.second.sorted();
  const double fixed = pair.first.fixed_load()[key_dimension];
  const double sum = search.sum[key_dimension];
  const std::int64_t last_step = steps + kMaxSteps;
  // partner[low, high) is the window; both ends fall as the first bin keeps more.
  std::size_t low = partner.size();
  std::size_t high = partner.size();
  for (const Subsets::Entry& kept : pair.first.sorted()) {
    const double base = fixed + kept.key;
    while (high > 0 &&
           pair.first_slowdown * (base + partner[high - 1].key) >= search.limits.first) {
      --high;
    }
    while (low > 0 &&
           pair.second_slowdown * (sum - (base + partner[low - 1].key)) < search.limits.second) {
      --low;
    }
    steps += 1;
    for (std::size_t i = low; i < high; ++i) {
      if (search.limits.even) {
        search.consider_evenness(*search.limits.even, kept.mask, partner[i].mask);
      } else {
        search.consider(kept.mask, partner[i].mask);
      }
      ++steps;
    }
    if (high == 0 || steps > last_step) break;
    if (search.best && search.best->value <= search.limits.enough) break;
  }
  return search.best;
}

}  // namespace isocost
