#include "loader/node/internal/current_job.h"

#include <utility>
#include <variant>

namespace isocost {
namespace {

Error ended() { return {ErrorCode::kCancelled, "the node was asked to stop"}; }

bool is_something(const Result<CurrentJob::Next>& next) {
  return !next || !std::holds_alternative<CurrentJob::NothingToSend>(*next);
}

}  // namespace

tl::expected<CurrentJob::Admission, Refusal> CurrentJob::admit(
    const JoinRequest& request, std::shared_ptr<const JobOrder> order) {
  const MonotonicTime now = clock_();
  const MutexLock lock(mutex_);
  changed_.notify_all();
  return jobs_.admit(request, std::move(order), now);
}

tl::expected<JobTerms, Refusal> CurrentJob::begin(const Hello& hello, bool alone,
                                                  std::shared_ptr<const JobOrder> order) {
  const MonotonicTime now = clock_();
  const MutexLock lock(mutex_);
  changed_.notify_all();
  return jobs_.begin(hello, alone, std::move(order), now);
}

void CurrentJob::join(const ClientJoined& joined) {
  const MutexLock lock(mutex_);
  jobs_.join(joined);
  changed_.notify_all();
}

void CurrentJob::leave(std::int32_t rank, bool lost) {
  const MonotonicTime now = clock_();
  const MutexLock lock(mutex_);
  jobs_.leave(rank, lost, now);
  changed_.notify_all();
}

void CurrentJob::hear(std::int32_t rank) {
  const MonotonicTime now = clock_();
  const MutexLock lock(mutex_);
  jobs_.hear(rank, now);
}

void CurrentJob::grant(std::int32_t rank, std::uint32_t microbatches) {
  const MutexLock lock(mutex_);
  jobs_.grant(rank, microbatches);
  changed_.notify_all();
}

void CurrentJob::acknowledge(std::int32_t rank, const Position& position) {
  const MutexLock lock(mutex_);
  jobs_.acknowledge(rank, position);
  changed_.notify_all();
}

CurrentJob::HeldStep CurrentJob::find(std::int32_t rank, const Position& position) const {
  const MutexLock lock(mutex_);
  return jobs_.find(rank, position);
}

Result<JobTerms> CurrentJob::wait_for_job(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const bool begun = changed_.wait(
      mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return jobs_.any() || jobs_.draining(); });
  if (!begun || !jobs_.any()) return ended();
  return jobs_.terms();
}

Status CurrentJob::wait_for_room(std::uint64_t job, const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const bool woken = changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) {
    return !jobs_.check_open(job) || jobs_.has_room();
  });
  ISOCOST_TRY(jobs_.check_open(job));
  return woken ? Status() : ended();
}

Status CurrentJob::push(std::uint64_t job, std::shared_ptr<SealedStep> step) {
  const MutexLock lock(mutex_);
  changed_.notify_all();
  return jobs_.push(job, std::move(step));
}

Status CurrentJob::push(std::uint64_t job, const EpochEnd& end) {
  const MutexLock lock(mutex_);
  changed_.notify_all();
  return jobs_.push(job, end);
}

Result<CurrentJob::Next> CurrentJob::next(std::uint64_t job, std::chrono::nanoseconds limit,
                                          const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  Result<Next> next = Next(NothingToSend{});
  changed_.wait_for(mutex_, stop, limit, [&]() ISOCOST_REQUIRES(mutex_) {
    next = jobs_.next(job);
    return is_something(next);
  });
  if (!next) return next;
  if (stop.stop_requested()) return ended();
  // Fewer steps wait to be sent, so planning may continue.
  if (std::holds_alternative<Outgoing>(*next)) changed_.notify_all();
  return next;
}

std::optional<CurrentJob::BlockedRanks> CurrentJob::blocked_ranks(std::uint64_t job,
                                                                  std::chrono::nanoseconds least) {
  const MonotonicTime now = clock_();
  const MutexLock lock(mutex_);
  return jobs_.blocked_ranks(job, least, now);
}

std::optional<std::int32_t> CurrentJob::missing_rank(std::uint64_t job,
                                                     std::chrono::nanoseconds least) {
  const MonotonicTime now = clock_();
  const MutexLock lock(mutex_);
  changed_.notify_all();  // the rank may count as done now
  return jobs_.missing_rank(job, least, now);
}

void CurrentJob::drain() {
  const MutexLock lock(mutex_);
  jobs_.drain();
  changed_.notify_all();
}

void CurrentJob::fail(Error error) {
  const MutexLock lock(mutex_);
  jobs_.fail(std::move(error));
  changed_.notify_all();
}

bool CurrentJob::wait_until_joined(std::chrono::nanoseconds limit) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, limit,
                           [this]() ISOCOST_REQUIRES(mutex_) { return jobs_.all_joined(); });
}

bool CurrentJob::wait_until_left(std::chrono::nanoseconds limit) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(
      mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return jobs_.all_joined_and_left(); });
}

std::optional<Position> CurrentJob::drained_at() const {
  const MutexLock lock(mutex_);
  return jobs_.drained_at();
}

UnfinishedRanks CurrentJob::unfinished() const {
  const MutexLock lock(mutex_);
  return jobs_.unfinished();
}

bool CurrentJob::draining() const {
  const MutexLock lock(mutex_);
  return jobs_.draining();
}

CurrentJob::Depth CurrentJob::depth() const {
  const MutexLock lock(mutex_);
  return jobs_.depth();
}

StallWatch::Activity CurrentJob::activity() const {
  const MutexLock lock(mutex_);
  return jobs_.activity();
}

std::vector<DeliveryQueue::Behind> CurrentJob::behind() const {
  const MutexLock lock(mutex_);
  return jobs_.behind();
}

DeliveryCounts CurrentJob::delivered() const {
  const MutexLock lock(mutex_);
  return jobs_.delivered();
}

DeliveryCounts CurrentJob::delivered_of_job() const {
  const MutexLock lock(mutex_);
  return jobs_.delivered_of_job();
}

}  // namespace isocost
