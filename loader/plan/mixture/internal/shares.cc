#include "loader/plan/mixture/internal/shares.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "loader/plan/mixture/internal/wide.h"

namespace isocost {
namespace {

// Proportions count in units of 2^-60. A double from 1e-9 to 1e9 loses nothing that matters, and a
// sum of them stays below 2^120. Scaling by a power of two and cutting off are exact.
constexpr int kProportionBits = 60;

Wide raw(double proportion) { return static_cast<Wide>(std::ldexp(proportion, kProportionBits)); }

// Returns the index of the first breakpoint after a step.
std::size_t after(const ProportionSchedule& schedule, std::uint64_t step) {
  const auto next = std::ranges::upper_bound(schedule.points, step, {}, &Breakpoint::step);
  return static_cast<std::size_t>(next - schedule.points.begin());
}

// Returns whether the proportion runs from the breakpoint before `next` to that one.
bool runs_to(const ProportionSchedule& schedule, std::size_t next) {
  return schedule.ramp && next > 0 && next < schedule.points.size() &&
         schedule.points[next - 1].proportion != schedule.points[next].proportion;
}

// Returns the proportion at a step that is not behind the breakpoint `next`, if the source is not
// dropped.
Wide run_at(const ProportionSchedule& schedule, std::size_t next, std::uint64_t step) {
  const Breakpoint& from = schedule.points[next - 1];
  if (!runs_to(schedule, next)) return raw(from.proportion);
  const Breakpoint& to = schedule.points[next];
  const auto rise =
      static_cast<SignedWide>(raw(to.proportion)) - static_cast<SignedWide>(raw(from.proportion));
  const auto risen = rise * static_cast<SignedWide>(step - from.step) /
                     static_cast<SignedWide>(to.step - from.step);
  return static_cast<Wide>(static_cast<SignedWide>(raw(from.proportion)) + risen);
}

Wide value_at(const ProportionSchedule& schedule, std::uint64_t step) {
  const std::size_t next = after(schedule, step);
  return step >= schedule.end || next == 0 ? 0 : run_at(schedule, next, step);
}

// Adds the turns of one source.
void add_turns(const ProportionSchedule& schedule, std::vector<std::uint64_t>& turns) {
  for (std::size_t i = 0; i < schedule.points.size(); ++i) {
    const std::uint64_t step = schedule.points[i].step;
    if (step >= schedule.end) break;
    const double before = i == 0 ? 0 : schedule.points[i - 1].proportion;
    const bool jumps = before != schedule.points[i].proportion && !runs_to(schedule, i);
    if (jumps || runs_to(schedule, i) || runs_to(schedule, i + 1)) turns.push_back(step);
  }
  if (schedule.end != ProportionSchedule::kNoEnd) {
    const bool was_there = schedule.end > 0 && value_at(schedule, schedule.end - 1) > 0;
    if (was_there) turns.push_back(schedule.end);
  }
}

// Returns the sums of the shares up to each source; all 0 if no proportion is positive. Proportions
// are cut to 64 bits below the largest first, so that the product fits.
std::vector<std::int64_t> normalised(const std::vector<Wide>& proportions) {
  std::vector<std::int64_t> sums(proportions.size(), 0);
  const Wide largest = proportions.empty() ? 0 : *std::ranges::max_element(proportions);
  const auto upper = static_cast<std::uint64_t>(largest >> 64);
  const auto shift = static_cast<int>(std::bit_width(upper));
  Wide total = 0;
  for (const Wide proportion : proportions) total += proportion >> shift;
  if (total == 0) return sums;
  Wide sum = 0;
  for (std::size_t i = 0; i < proportions.size(); ++i) {
    sum += proportions[i] >> shift;
    sums[i] = static_cast<std::int64_t>((sum << kShareBits) / total);
  }
  return sums;
}

}  // namespace

Shares::Shares(std::span<const ProportionSchedule> schedules)
    : schedules_(schedules), lines_(schedules.size()), shares_(schedules.size()) {
  find_turns();
  move_to(0);
}

void Shares::find_turns() {
  turns_.push_back(0);
  for (const ProportionSchedule& schedule : schedules_) add_turns(schedule, turns_);
  std::ranges::sort(turns_);
  turns_.erase(std::ranges::unique(turns_).begin(), turns_.end());
}

// Sets the line from `from` to `to` at `steps` steps behind the turn.
void Shares::set_line(Line& line, std::int64_t from, std::int64_t to, std::uint64_t steps) const {
  const auto floored = [this](SignedWide value) {
    const SignedWide quotient = value / length_;
    return value % length_ < 0 ? quotient - 1 : quotient;
  };
  const SignedWide risen = SignedWide{to - from} * static_cast<SignedWide>(steps);
  line.sum = from + static_cast<std::int64_t>(floored(risen));
  line.rest = static_cast<std::int64_t>(risen - floored(risen) * length_);
  line.sum_slope = static_cast<std::int64_t>(floored(to - from));
  line.rest_slope = (to - from) - line.sum_slope * length_;
}

// Begins with the shares from a turn on, and goes to step_.
void Shares::begin_stretch(std::uint64_t turn) {
  std::uint64_t end = ProportionSchedule::kNoEnd;  // of the ramp that ends first
  for (const ProportionSchedule& schedule : schedules_) {
    const std::size_t next = after(schedule, turn);
    if (turn < schedule.end && runs_to(schedule, next)) {
      end = std::min(end, schedule.points[next].step);
    }
  }
  ramps_ = end != ProportionSchedule::kNoEnd;
  length_ = ramps_ ? static_cast<std::int64_t>(end - turn) : 1;
  std::vector<Wide> begins;
  std::vector<Wide> ends;
  for (const ProportionSchedule& schedule : schedules_) {
    begins.push_back(value_at(schedule, turn));
    const std::size_t next = after(schedule, turn);
    const bool runs = turn < schedule.end && runs_to(schedule, next);
    ends.push_back(runs ? run_at(schedule, next, end) : begins.back());
  }
  const std::vector<std::int64_t> from = normalised(begins);
  std::vector<std::int64_t> to = normalised(ends);
  if (to.empty() || to.back() == 0) to = from;  // all fall to 0 at once: they keep their shares
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    set_line(lines_[i], from[i], to[i], step_ - turn);
  }
}

void Shares::update() {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    shares_[i] = lines_[i].sum - before;
    before = lines_[i].sum;
  }
}

void Shares::move_to(std::uint64_t step) {
  step_ = step;
  const auto next = std::ranges::upper_bound(turns_, step);
  next_turn_ = next == turns_.end() ? ProportionSchedule::kNoEnd : *next;
  begin_stretch(*std::prev(next));
  changed_ = true;
  update();
}

void Shares::advance() {
  if (step_ + 1 == next_turn_) return move_to(step_ + 1);
  ++step_;
  changed_ = ramps_;
  if (!ramps_) return;
  for (Line& line : lines_) {
    line.sum += line.sum_slope;
    line.rest += line.rest_slope;
    if (line.rest >= length_) {
      line.rest -= length_;
      ++line.sum;
    }
  }
  update();
}

}  // namespace isocost
