#include "loader/node/internal/delivery_queue.h"

#include <algorithm>
#include <utility>

#include "transport/wire/wire.h"

namespace isocost {

namespace {

bool is_at(const SealedStep& step, const Position& position) {
  return step.epoch == position.epoch && step.step == position.step;
}

}  // namespace

class DeliveryQueue::Change {
 public:
  Change(DeliveryQueue& queue, std::size_t receiver) : queue_(queue), receiver_(receiver) {
    queue_.leave_indexes(receiver_);
  }
  ~Change() { queue_.enter_indexes(receiver_); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  DeliveryQueue& queue_;
  const std::size_t receiver_;
};

DeliveryQueue::DeliveryQueue(std::int32_t ranks, Position start)
    : ranks_(static_cast<std::size_t>(ranks)),
      next_step_(start),
      done_counts_{ranks_.size()},
      sent_counts_{ranks_.size()} {}

void DeliveryQueue::leave_indexes(std::size_t receiver) {
  Rank& rank = ranks_[receiver];
  if (std::exchange(rank.may_be_sent, false)) ready_.erase({rank.entry, rank.microbatch, receiver});
  if (std::exchange(rank.counted, false)) unacknowledged_ -= 1;
  sent_counts_[static_cast<std::size_t>(rank.entry - first_)] -= 1;
  done_counts_[static_cast<std::size_t>(rank.done - first_)] -= 1;
}

void DeliveryQueue::enter_indexes(std::size_t receiver) {
  Rank& rank = ranks_[receiver];
  pass_ended_epochs(rank);
  const Entry* entry = entry_at(rank.entry);
  rank.may_be_sent =
      rank.present && entry != nullptr && (entry->step == nullptr || rank.credit > 0);
  if (rank.may_be_sent) ready_.insert({rank.entry, rank.microbatch, receiver});
  rank.counted = rank.has_unacknowledged();
  if (rank.counted) unacknowledged_ += 1;
  sent_counts_[static_cast<std::size_t>(rank.entry - first_)] += 1;
  // A client that joins is not done with an end that the one before did not need.
  rank.done = first_;
  while (entry_at(rank.done) != nullptr && done_with(receiver, rank.done)) ++rank.done;
  done_counts_[static_cast<std::size_t>(rank.done - first_)] += 1;
}

void DeliveryQueue::push(std::shared_ptr<SealedStep> step) {
  next_step_ = {step->epoch, step->step + 1, 0};
  push(Entry{std::move(step), {}});
}

void DeliveryQueue::push(const EpochEnd& end) {
  next_step_ = {end.epoch + 1, 0, 0};
  complete_ = complete_ || end.last_epoch;
  push(Entry{nullptr, end});
}

void DeliveryQueue::push(Entry entry) {
  const std::uint64_t number = first_ + entries_.size();
  entries_.push_back(std::move(entry));
  done_counts_.push_back(0);
  sent_counts_.push_back(0);
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
    const Rank& rank = ranks_[receiver];
    if (rank.entry == number || rank.done == number) const Change change(*this, receiver);
  }
}

const DeliveryQueue::Entry* DeliveryQueue::entry_at(std::uint64_t number) const {
  if (number < first_ || number - first_ >= entries_.size()) return nullptr;
  return &entries_[static_cast<std::size_t>(number - first_)];
}

// Sets the rank's cursor to the first microbatch after `position`; without a position, to the
// oldest one that is held.
void DeliveryQueue::seek_after(std::size_t number, const std::optional<Position>& position) {
  Rank& rank = ranks_[number];
  rank.entry = first_;
  rank.microbatch = 0;
  if (!position) return;
  for (; const Entry* entry = entry_at(rank.entry); ++rank.entry) {
    if (entry->step == nullptr) {
      // The end of an earlier epoch than `position` was received, since it comes before anything of
      // a later epoch.
      if (entry->end.epoch >= position->epoch) return;
      continue;
    }
    const Position last = entry->step->last_position(number);
    if (*position < last) {
      const bool inside = position->epoch == last.epoch && position->step == last.step;
      rank.microbatch = inside ? position->microbatch + 1 : 0;
      return;
    }
  }
}

void DeliveryQueue::join(std::int32_t rank, const std::optional<Position>& received) {
  Rank& state = ranks_.at(static_cast<std::size_t>(rank));
  {
    const Change change(*this, static_cast<std::size_t>(rank));
    state.present = true;
    state.needs_end = true;
    state.credit = 0;
    // Acknowledged microbatches are no longer held, even if a client claims to have received less.
    std::optional<Position> after = state.acknowledged;
    // A client cannot have received more than was sent.
    const bool possible = received && state.sent && *received <= *state.sent;
    if (possible && (!after || *after < *received)) after = received;
    seek_after(static_cast<std::size_t>(rank), after);
    state.fresh = !received;
  }
  drop_finished();
}

// A client that continues for another one begins after the epoch that is over: to be told its end
// would look like the end of the epoch that it begins. The last end tells that nothing follows.
void DeliveryQueue::pass_ended_epochs(Rank& rank) const {
  if (!rank.fresh || !rank.acknowledged) return;
  for (const Entry* entry = entry_at(rank.entry); entry != nullptr; entry = entry_at(rank.entry)) {
    const bool is_over = entry->step == nullptr && !entry->end.last_epoch &&
                         rank.acknowledged->epoch >= entry->end.epoch;
    if (!is_over) break;
    rank.entry += 1;
  }
}

void DeliveryQueue::leave(std::int32_t rank, bool announced) {
  set_client(rank, false, !announced);
  drop_finished();
}

void DeliveryQueue::set_client(std::int32_t rank, bool present, bool needs_end) {
  Rank& state = ranks_.at(static_cast<std::size_t>(rank));
  const Change change(*this, static_cast<std::size_t>(rank));
  state.present = present;
  state.needs_end = needs_end;
}

void DeliveryQueue::excuse(std::int32_t rank) { set_client(rank, false, false); }

void DeliveryQueue::grant(std::int32_t rank, std::uint32_t microbatches) {
  std::uint32_t& credit = ranks_.at(static_cast<std::size_t>(rank)).credit;
  const Change change(*this, static_cast<std::size_t>(rank));
  credit = std::min(kMaxCredit, credit + std::min(kMaxCredit, microbatches));
}

void DeliveryQueue::acknowledge(std::int32_t rank, const Position& position) {
  Rank& state = ranks_.at(static_cast<std::size_t>(rank));
  if (!state.sent || position > *state.sent) return;
  if (state.acknowledged && position <= *state.acknowledged) return;
  count_delivered(static_cast<std::size_t>(rank), state.acknowledged, position);
  {
    const Change change(*this, static_cast<std::size_t>(rank));
    state.acknowledged = position;
  }
  drop_finished();
}

// Counts the microbatches after `before` up to `now`, which the receiver has acknowledged. Their
// steps are still held.
void DeliveryQueue::count_delivered(std::size_t receiver, const std::optional<Position>& before,
                                    const Position& now) {
  for (const Entry& entry : entries_) {
    if (entry.step == nullptr) continue;
    const SealedStep& step = *entry.step;
    for (std::uint32_t m = 0; m < step.plan.microbatches_of(receiver); ++m) {
      const Position at{step.epoch, step.step, m};
      if (before && at <= *before) continue;
      if (at > now) return;
      delivered_.samples += step.plan.samples_counted(receiver, m);
    }
  }
}

std::optional<DeliveryQueue::Delivery> DeliveryQueue::next() {
  if (ready_.empty()) return std::nullopt;
  const std::size_t receiver = std::get<2>(*ready_.begin());
  Rank& rank = ranks_[receiver];
  const Entry& entry = *entry_at(rank.entry);
  const Entry* following = entry_at(rank.entry + 1);
  Delivery delivery{static_cast<std::int32_t>(receiver), entry.step, rank.microbatch, entry.end,
                    following != nullptr ? following->step : nullptr};
  {
    const Change change(*this, receiver);
    pass(receiver, entry);
  }
  return delivery;
}

// Counts the rank's next microbatch or end of epoch as sent.
void DeliveryQueue::pass(std::size_t receiver, const Entry& entry) {
  Rank& rank = ranks_[receiver];
  if (entry.step != nullptr) {
    rank.credit -= 1;
    rank.begun = true;
    rank.fresh = false;
    const Position at{entry.step->epoch, entry.step->step, rank.microbatch};
    if (!rank.sent || *rank.sent < at) rank.sent = at;
    rank.microbatch += 1;
    if (rank.microbatch < entry.step->plan.microbatches_of(receiver)) return;
  }
  rank.entry += 1;
  rank.microbatch = 0;
}

bool DeliveryQueue::is_last_end(std::uint64_t number) const {
  return complete_ && number + 1 == first_ + entries_.size() && entry_at(number)->step == nullptr;
}

// A connection may be lost with all that was sent on it. An end is not acknowledged: a rank has it
// if it trains in a later epoch. Nobody can know that of the last one.
bool DeliveryQueue::done_with(std::size_t receiver, std::uint64_t number) const {
  const Rank& rank = ranks_[receiver];
  const Entry& entry = *entry_at(number);
  if (is_last_end(number)) return rank.entry > number || !rank.needs_end;
  if (!rank.acknowledged) return false;
  if (entry.step == nullptr) return rank.acknowledged->epoch > entry.end.epoch;
  return *rank.acknowledged >= entry.step->last_position(receiver);
}

bool DeliveryQueue::done_with_all(std::size_t receiver) const {
  return entry_at(ranks_[receiver].done) == nullptr;
}

Position DeliveryQueue::end_early() {
  std::uint64_t end = first_;  // number of the first entry that was not sent at all
  for (const Rank& rank : ranks_) end = std::max(end, rank.entry + (rank.microbatch > 0 ? 1 : 0));
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) leave_indexes(receiver);
  complete_ = true;
  if (const Entry* dropped = entry_at(end)) {
    next_step_ = dropped->step != nullptr ? Position{dropped->step->epoch, dropped->step->step, 0}
                                          : Position{dropped->end.epoch, dropped->end.steps, 0};
    entries_.resize(static_cast<std::size_t>(end - first_));
    done_counts_.resize(entries_.size() + 1);
    sent_counts_.resize(entries_.size() + 1);
  }
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) enter_indexes(receiver);
  drop_finished();
  return next_step_;
}

UnfinishedRanks DeliveryQueue::unfinished() const {
  UnfinishedRanks ranks;
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
    if (done_with_all(receiver)) continue;
    auto& list = ranks_[receiver].present ? ranks.present : ranks.absent;
    list.push_back(static_cast<std::int32_t>(receiver));
  }
  return ranks;
}

std::optional<std::int32_t> DeliveryQueue::unfinished_absent_rank() const {
  if (!complete_) return std::nullopt;
  std::optional<std::int32_t> absent;
  bool any_done = false;
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
    if (done_with_all(receiver)) {
      any_done = true;
    } else if (ranks_[receiver].present) {
      return std::nullopt;
    } else if (!absent) {
      absent = static_cast<std::int32_t>(receiver);
    }
  }
  return any_done ? absent : std::nullopt;
}

std::optional<std::int32_t> DeliveryQueue::untold_absent_rank() const {
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
    const Rank& rank = ranks_[receiver];
    if (rank.present || entry_at(rank.done) == nullptr) continue;
    if (is_last_end(rank.done)) return static_cast<std::int32_t>(receiver);
  }
  return std::nullopt;
}

// Drops what every rank is done with. The last end stays for clients that come back for it.
void DeliveryQueue::drop_finished() {
  while (!entries_.empty() && done_counts_.front() == 0 && !is_last_end(first_)) {
    // A rank may be done with what it is to be sent again.
    for (std::size_t receiver = 0; sent_counts_.front() > 0; ++receiver) {
      Rank& rank = ranks_[receiver];
      if (rank.entry > first_) continue;
      const Change change(*this, receiver);
      rank.entry = first_ + 1;
      rank.microbatch = 0;
    }
    if (entries_.front().step != nullptr) {
      delivered_.steps += 1;
      past_.push_back(std::move(entries_.front().step));
      if (past_.size() > kReportSteps) past_.pop_front();
    }
    entries_.pop_front();
    done_counts_.pop_front();
    sent_counts_.pop_front();
    first_ += 1;
  }
}

std::int64_t DeliveryQueue::present() const {
  return std::ranges::count_if(ranks_, [](const Rank& rank) { return rank.present; });
}

bool DeliveryQueue::acknowledged_any() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.acknowledged.has_value(); });
}

std::uint64_t DeliveryQueue::steps_between(std::uint64_t first, std::uint64_t end) const {
  std::uint64_t steps = 0;
  for (std::uint64_t number = first; number < end; ++number) {
    const Entry* entry = entry_at(number);
    if (entry != nullptr && entry->step != nullptr) ++steps;
  }
  return steps;
}

Position DeliveryQueue::next_of(std::int32_t rank) const {
  const auto receiver = static_cast<std::size_t>(rank);
  const std::optional<Position>& done = ranks_.at(receiver).acknowledged;
  for (const Entry& entry : entries_) {
    if (entry.step == nullptr) {
      if (!done || entry.end.epoch >= done->epoch) return {entry.end.epoch + 1, 0, 0};
    } else if (!done || *done < entry.step->last_position(receiver)) {
      return {entry.step->epoch, entry.step->step, acknowledged_of(receiver, *entry.step)};
    }
  }
  return next_step_;
}

std::optional<Position> DeliveryQueue::inside_step() const {
  const auto held = std::find_if(entries_.begin(), entries_.end(),
                                 [](const Entry& entry) { return entry.step != nullptr; });
  if (held == entries_.end()) return std::nullopt;
  for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
    if (acknowledged_of(receiver, *held->step) == 0) continue;
    return Position{held->step->epoch, held->step->step, 0};
  }
  return std::nullopt;
}

std::optional<std::int32_t> DeliveryQueue::absent_rank() const {
  if (complete_) return std::nullopt;  // nothing more will be planned
  const bool any_waits = std::any_of(ranks_.begin(), ranks_.end(),
                                     [this](const Rank& rank) { return waits_for_data(rank); });
  if (!any_waits) return std::nullopt;
  const auto slowest = std::min_element(
      ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) { return a.entry < b.entry; });
  if (slowest->present) return std::nullopt;
  return static_cast<std::int32_t>(slowest - ranks_.begin());
}

std::size_t DeliveryQueue::ahead() const {
  const auto slowest = std::ranges::find_if(sent_counts_, [](std::size_t n) { return n > 0; });
  const auto first = static_cast<std::size_t>(slowest - sent_counts_.begin());
  std::size_t steps = 0;
  for (std::size_t i = first; i < entries_.size(); ++i)
    steps += entries_[i].step != nullptr ? 1 : 0;
  return steps;
}

// Returns the number of microbatches of the step that the rank has acknowledged.
std::uint32_t DeliveryQueue::acknowledged_of(std::size_t receiver, const SealedStep& step) const {
  const Rank& rank = ranks_[receiver];
  if (!rank.acknowledged || *rank.acknowledged < Position{step.epoch, step.step, 0}) return 0;
  if (*rank.acknowledged >= step.last_position(receiver))
    return step.plan.microbatches_of(receiver);
  return rank.acknowledged->microbatch + 1;
}

QueueDepth DeliveryQueue::depth() const {
  QueueDepth depth;
  for (std::uint64_t number = first_; const Entry* entry = entry_at(number); ++number) {
    if (entry->step == nullptr) continue;
    const SealedStep& step = *entry->step;
    if (!depth.oldest) depth.oldest = Position{step.epoch, step.step, 0};
    depth.steps += 1;
    for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
      const Rank& rank = ranks_[receiver];
      const std::uint32_t all = step.plan.microbatches_of(receiver);
      const std::uint32_t reached = rank.entry == number ? rank.microbatch : 0;
      const std::uint32_t sent = rank.entry > number ? all : reached;
      depth.planned += all - sent;
      depth.unacknowledged += sent - std::min(sent, acknowledged_of(receiver, step));
    }
  }
  return depth;
}

std::vector<DeliveryQueue::Behind> DeliveryQueue::behind() const {
  std::vector<Behind> behind;
  for (std::uint64_t number = first_; behind.empty() && entry_at(number) != nullptr; ++number) {
    const auto& step = entry_at(number)->step;
    if (step == nullptr) continue;
    for (std::size_t receiver = 0; receiver < ranks_.size(); ++receiver) {
      if (done_with(receiver, number)) continue;
      const Rank& rank = ranks_[receiver];
      behind.push_back({static_cast<std::int32_t>(receiver),
                        rank.present,
                        rank.entry > number,
                        {step->epoch, step->step, 0},
                        steps_between(number, rank.entry)});
    }
  }
  return behind;
}

bool DeliveryQueue::finished() const { return complete_ && done_counts_.back() == ranks_.size(); }

bool DeliveryQueue::all_trained() const {
  if (!complete_) return false;
  const bool has_end = !entries_.empty() && entries_.back().step == nullptr;
  const std::size_t lack_the_end = has_end ? done_counts_[entries_.size() - 1] : 0;
  return done_counts_.back() + lack_the_end == ranks_.size();
}

std::shared_ptr<const SealedStep> DeliveryQueue::find(const Position& position) const {
  for (const Entry& entry : entries_) {
    if (entry.step == nullptr) continue;
    if (is_at(*entry.step, position)) return entry.step;
  }
  for (const auto& step : past_) {
    if (is_at(*step, position)) return step;
  }
  return nullptr;
}

}  // namespace isocost
