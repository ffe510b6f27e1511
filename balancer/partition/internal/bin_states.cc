#include "balancer/partition/internal/bin_states.h"

#include <algorithm>
#include <utility>

namespace isocost {
namespace {

// Number of divisions that counts as one pair, for pairs that are more expensive than usual.
constexpr std::int64_t kStepsPerWork = 256;
// Sorting all bins takes about as long as moving this many.
constexpr std::size_t kFewMoved = 128;

}  // namespace

BinStates::BinStates(const Partition& problem, Bins& bins)
    : problem_(problem), bins_(bins), states_(bins.size()) {
  choose_key_dimension();
  for (std::size_t b = 0; b < bins_.size(); ++b) {
    weigh(b);
    states_[b].ranked = states_[b].largest;
    order_.push_back({states_[b].largest, b});
  }
  rank_all();
}

// Chooses the dimension with the largest total load, which has the narrowest window.
void BinStates::choose_key_dimension() {
  std::array<double, kMaxLoadDimensions> sum{};
  for (std::size_t i = 0; i < problem_.items(); ++i) {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) sum[k] += problem_.cost(i)[k];
  }
  const auto end = sum.begin() + static_cast<std::ptrdiff_t>(problem_.dimensions);
  key_dimension_ = static_cast<std::size_t>(std::max_element(sum.begin(), end) - sum.begin());
}

void BinStates::weigh(std::size_t bin) {
  State& state = states_[bin];
  state.load = {};
  state.held = {};
  for (const std::uint32_t item : bins_[bin]) {
    for (std::size_t k = 0; k < problem_.dimensions; ++k) state.load[k] += problem_.cost(item)[k];
    problem_.add(item, state.held);
  }
  state.largest = problem_.slowdown(bin) * *std::max_element(state.load.begin(), state.load.end());
  state.built = false;
}

const Subsets& BinStates::subsets(std::size_t bin) {
  State& state = states_[bin];
  if (!state.built) state.subsets.build(problem_, bins_[bin], key_dimension_, scratch_);
  state.built = true;
  return state.subsets;
}

bool BinStates::may_split(std::size_t a, std::size_t b, const SplitLimits& limits) const {
  const double room = limits.first / problem_.slowdown(a) + limits.second / problem_.slowdown(b);
  for (std::size_t k = 0; k < problem_.dimensions; ++k) {
    if (states_[a].load[k] + states_[b].load[k] >= room) return false;
  }
  return true;
}

std::optional<Split> BinStates::split(std::size_t a, std::size_t b, const SplitLimits& limits,
                                      std::int64_t& work) {
  --work;
  if (!may_split(a, b, limits)) return std::nullopt;
  const Pair pair{subsets(a), subsets(b), problem_.slowdown(a), problem_.slowdown(b)};
  std::int64_t steps = 0;
  auto found = best_split(problem_, pair, key_dimension_, limits, steps);
  work -= steps / kStepsPerWork;
  return found;
}

void BinStates::apply(std::size_t a, std::size_t b, const Split& split) {
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
  replace(a, std::move(to_a));
  replace(b, std::move(to_b));
}

void BinStates::replace(std::size_t bin, std::vector<std::uint32_t> items) {
  bins_[bin] = std::move(items);
  update(bin);
}

void BinStates::swap_items(std::size_t a, std::size_t at_a, std::size_t b, std::size_t at_b) {
  std::swap(bins_[a][at_a], bins_[b][at_b]);
  update(a);
  update(b);
}

void BinStates::update(std::size_t bin) {
  std::sort(bins_[bin].begin(), bins_[bin].end());
  weigh(bin);
  if (states_[bin].moved) return;
  states_[bin].moved = true;
  moved_.push_back(bin);
}

// Sorts only when called, because bins change far more often than their order is read.
const std::vector<RankedBin>& BinStates::order() {
  const bool few = moved_.size() < kFewMoved;
  for (const std::size_t bin : moved_) {
    State& state = states_[bin];
    if (few) reorder({state.ranked, bin}, {state.largest, bin});
    state.ranked = state.largest;
    state.moved = false;
  }
  moved_.clear();
  if (!few) rank_all();
  return order_;
}

void BinStates::rank_all() {
  for (RankedBin& ranked : order_) ranked.load = states_[ranked.bin].largest;
  std::sort(order_.begin(), order_.end());
}

// Moves only the bins between both positions, since there may be thousands of bins.
void BinStates::reorder(const RankedBin& before, const RankedBin& now) {
  const auto old_position = std::lower_bound(order_.begin(), order_.end(), before);
  const auto new_position = std::lower_bound(order_.begin(), order_.end(), now);
  if (new_position > old_position) {
    *std::move(old_position + 1, new_position, old_position) = now;
  } else {
    std::move_backward(new_position, old_position, old_position + 1);
    *new_position = now;
  }
}

}  // namespace isocost
