#include "loader/node/internal/job.h"

#include <algorithm>
#include <utility>

namespace isocost {

Job::Job(std::uint64_t id, std::int32_t ranks, const StartPoint& start, MonotonicTime now,
         std::shared_ptr<const JobOrder> order, std::shared_ptr<const std::string> cost_model_state)
    : id_(id),
      ranks_(ranks),
      start_(start),
      asked_start_(start),
      order_(std::move(order)),
      cost_model_state_(std::move(cost_model_state)),
      queue_(ranks, {start.epoch, start.step, 0}),
      ranks_state_(static_cast<std::size_t>(ranks), Rank{.absent_since = now}) {}

Job Job::repeat_step(MonotonicTime now) const {
  const Position step = queue_.inside_step().value_or(Position{});
  Job again(id_ + 1, ranks_, StartPoint{0, step.epoch, step.step, {}, start_.mixture}, now, order_);
  again.asked_start_ = asked_start_;
  return again;
}

void Job::join(const ClientJoined& joined) {
  if (joined.rank < 0 || joined.rank >= ranks_) return;
  queue_.join(joined.rank, joined.received);
  at(joined.rank) = {.joined_before = true, .session = joined.session, .absent_since = {}};
}

void Job::leave(std::int32_t rank, bool lost, MonotonicTime now) {
  if (rank < 0 || rank >= ranks_) return;  // a client of the job before, or one that never joined
  queue_.leave(rank, !lost);
  at(rank).joined_before = true;
  at(rank).lost = lost;
  at(rank).absent_since = now;
}

void Job::hear(std::int32_t rank, MonotonicTime now) {
  if (rank >= 0 && rank < ranks_) at(rank).absent_since = now;
}

bool Job::all_joined() const {
  return std::all_of(ranks_state_.begin(), ranks_state_.end(),
                     [](const Rank& rank) { return rank.joined_before; });
}

bool Job::any_lost() const {
  return std::any_of(ranks_state_.begin(), ranks_state_.end(),
                     [](const Rank& rank) { return rank.lost; });
}

bool Job::any_gave_up() const {
  for (std::int32_t rank = 0; rank < ranks_; ++rank) {
    const bool left = at(rank).joined_before && !queue_.present(rank);
    if (left && !queue_.finished(rank)) return true;
  }
  return false;
}

bool Job::all_left() const { return queue_.present() == 0; }

MonotonicTime Job::disputed_since(MonotonicTime now) {
  if (!disputed_since_) disputed_since_ = now;
  return *disputed_since_;
}

}  // namespace isocost
