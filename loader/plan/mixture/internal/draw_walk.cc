#include "loader/plan/mixture/internal/draw_walk.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace isocost {
namespace {

constexpr int kIndexBits = 10;  // of a source in a key
constexpr std::int64_t kIndexMask = (std::int64_t{1} << kIndexBits) - 1;

// Returns how much more a source may be owed in all, in units of kWholeShare.
SignedWide room(std::uint64_t limit, std::uint64_t drawn, std::int64_t owed) {
  return (SignedWide{limit - drawn} << kShareBits) - owed;
}

// Returns a number that is larger for a source that is owed more or, if two are owed the same,
// comes first. Owed amounts that remain beside whole samples are a few samples, so it fits.
std::int64_t key_of(std::int64_t owed, std::size_t source) {
  return owed * (kIndexMask + 1) + (kIndexMask - static_cast<std::int64_t>(source));
}

std::size_t source_of(std::int64_t key) {
  return static_cast<std::size_t>(kIndexMask - (key & kIndexMask));
}

constexpr std::int64_t kWholeKey = kWholeShare * (kIndexMask + 1);

}  // namespace

DrawWalk::DrawWalk(std::span<const ProportionSchedule> schedules,
                   std::span<const std::uint64_t> limits, std::uint64_t batch)
    : limits_(limits), batch_(batch), shares_(schedules), counts_(schedules.size()) {
  position_.owed.resize(schedules.size());
  position_.drawn.resize(schedules.size());
  any_limit_ = std::ranges::any_of(limits, [](std::uint64_t limit) { return limit != kNoLimit; });
  find_active();
}

void DrawWalk::find_active() {
  active_.clear();
  const std::span<const std::int64_t> shares = shares_.now();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] > 0) active_.push_back(i);
  }
}

void DrawWalk::move_to(DrawPosition position) {
  position_ = std::move(position);
  shares_.move_to(position_.step);
  find_active();
  far_steps_ = 0;
  ended_.clear();
}

std::span<const std::uint64_t> DrawWalk::next() {
  ended_.clear();
  if (any_limit_ && near_a_limit()) {
    add_limited_shares();
  } else {
    add_shares();
  }
  std::ranges::fill(counts_, 0);
  take_largest(batch_ - take_whole(batch_));
  for (const std::size_t i : active_) position_.drawn[i] += counts_[i];
  ++position_.step;
  shares_.advance();
  if (shares_.changed()) find_active();
  return counts_;
}

// Returns whether a source may reach its limit in this step. A step adds a batch at most.
bool DrawWalk::near_a_limit() {
  if (far_steps_ > 0) {
    --far_steps_;
    return false;
  }
  const SignedWide most = SignedWide{batch_} << kShareBits;
  SignedWide steps = SignedWide{1} << 32;
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    if (limits_[i] == kNoLimit) continue;
    steps = std::min(steps, room(limits_[i], position_.drawn[i], position_.owed[i]) / most);
  }
  if (steps <= 0) return true;
  far_steps_ = static_cast<std::uint64_t>(steps) - 1;
  return false;
}

void DrawWalk::add_shares() {
  const auto batch = static_cast<std::int64_t>(batch_);
  const std::span<const std::int64_t> shares = shares_.now();
  for (std::size_t i = 0; i < shares.size(); ++i) position_.owed[i] += batch * shares[i];
}

// Adds a batch's shares so that no source is owed more than it has left: one that would be is
// filled up, and the others share the rest in proportion, until nobody exceeds.
void DrawWalk::add_limited_shares() {
  SignedWide amount = SignedWide{batch_} << kShareBits;
  std::vector<std::size_t> open;
  for (const std::size_t i : active_) {
    const bool unlimited = limits_[i] == kNoLimit;
    if (unlimited || room(limits_[i], position_.drawn[i], position_.owed[i]) > 0) open.push_back(i);
  }
  while (!open.empty() && fill_up(open, amount)) {
  }
  std::ranges::sort(ended_);
}

// Divides the amount among the open sources. Those that it fills up are taken out of both, and the
// others get nothing yet. Returns whether there are any; if not, all get their part.
bool DrawWalk::fill_up(std::vector<std::size_t>& open, SignedWide& amount) {
  const std::span<const std::int64_t> shares = shares_.now();
  SignedWide total = 0;
  for (const std::size_t i : open) total += shares[i];
  std::vector<std::size_t> still_open;
  std::vector<std::int64_t> parts;
  SignedWide sum = 0;
  SignedWide divided = 0;
  SignedWide filled = 0;
  for (const std::size_t i : open) {
    sum += shares[i];
    const SignedWide part = amount * sum / total - divided;
    divided += part;
    const SignedWide free = limits_[i] == kNoLimit
                                ? amount + 1
                                : room(limits_[i], position_.drawn[i], position_.owed[i]);
    if (part < free) {
      still_open.push_back(i);
      parts.push_back(static_cast<std::int64_t>(part));
      continue;
    }
    position_.owed[i] += static_cast<std::int64_t>(free);
    filled += free;
    ended_.push_back(i);
  }
  if (filled == 0) {
    for (std::size_t k = 0; k < open.size(); ++k) position_.owed[open[k]] += parts[k];
    return false;
  }
  amount -= filled;
  open = std::move(still_open);
  return true;
}

// Returns how many more samples a source can give in this step.
std::uint64_t DrawWalk::left_of(std::size_t source) const {
  return limits_[source] - position_.drawn[source] - counts_[source];
}

// Takes all samples that are owed at least `level + 1`, for the smallest level >= 0 at which they
// are no more than `wanted`. They are among the largest, because all others are owed less. Returns
// their number.
std::uint64_t DrawWalk::take_whole(std::uint64_t wanted) {
  std::uint64_t taken = wanted + 1;
  for (std::int64_t level = 0; taken > wanted; ++level) {
    taken = 0;
    for (const std::size_t i : active_) {
      counts_[i] = 0;
      const std::int64_t whole = (position_.owed[i] >> kShareBits) - level;
      counts_[i] =
          std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(whole, 0)), left_of(i));
      taken += counts_[i];
    }
  }
  for (const std::size_t i : active_) {
    position_.owed[i] -= static_cast<std::int64_t>(counts_[i]) << kShareBits;
  }
  return taken;
}

void DrawWalk::take(std::size_t source) {
  ++counts_[source];
  position_.owed[source] -= kWholeShare;
}

// Takes `left` samples, each from the source that is owed most.
void DrawWalk::take_largest(std::uint64_t left) {
  keys_.clear();
  for (const std::size_t i : active_) {
    if (left_of(i) > 0) keys_.push_back(key_of(position_.owed[i], i));
  }
  if (left == 0 || take_once_each(left)) return;
  std::ranges::make_heap(keys_);
  for (; left > 0 && !keys_.empty(); --left) {
    std::ranges::pop_heap(keys_);
    const std::size_t source = source_of(keys_.back());
    take(source);
    if (left_of(source) > 0) {
      keys_.back() -= kWholeKey;
      std::ranges::push_heap(keys_);
    } else {
      keys_.pop_back();
    }
  }
}

// Takes one sample from each of the `left` sources that are owed most, unless one of them would
// then still be owed more than another one was. Returns whether it did.
bool DrawWalk::take_once_each(std::uint64_t left) {
  if (left > keys_.size()) return false;
  const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(left);
  std::nth_element(keys_.begin(), end - 1, keys_.end(), std::greater<>());
  const std::int64_t most = *std::max_element(keys_.begin(), end);
  if (most - kWholeKey > *(end - 1)) return false;
  std::for_each(keys_.begin(), end, [this](std::int64_t key) { take(source_of(key)); });
  return true;
}

}  // namespace isocost
