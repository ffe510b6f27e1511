#include "loader/node/internal/current_job.h"

#include <utility>

namespace isocost {
namespace {

Error superseded() { return {ErrorCode::kCancelled, "another job has begun"}; }
Error stopped() { return {ErrorCode::kCancelled, "the node was asked to stop"}; }

Refusal begins_no_other() {
  return {ErrorCode::kDraining, "the node is draining and begins no other job"};
}

JobTerms terms_of(const Job& job) { return {job.id(), job.ranks(), job.start(), job.order()}; }

DeliveryCounts sum(const DeliveryCounts& a, const DeliveryCounts& b) {
  return {a.steps + b.steps, a.samples + b.samples};
}

}  // namespace

tl::expected<CurrentJob::Evaluation, Refusal> CurrentJob::evaluate(const Hello& hello,
                                                                   bool same_client) const {
  const MutexLock lock(mutex_);
  const auto decision = evaluate_join(hello, same_client, job_.get(), options_.requirements);
  if (!decision) return tl::unexpected(decision.error());
  Evaluation evaluation;
  evaluation.decision = *decision;
  if (*decision == JoinDecision::kAnswer) {
    evaluation.job.ranks = requested_ranks(hello, options_.requirements, job_.get());
    if (job_) evaluation.job.order = job_->order();
  }
  if (evaluation.joins()) {
    evaluation.job = terms_of(*job_);
    const Position next = job_->queue().next_of(hello.rank);
    evaluation.job.start.epoch = next.epoch;
    evaluation.job.start.step = next.step;
    evaluation.unasked = {.next = next, .asked = job_->asked_start()};
  }
  return evaluation;
}

tl::expected<JobTerms, Refusal> CurrentJob::begin(const Hello& hello, bool alone,
                                                  std::shared_ptr<const JobOrder> order) {
  const MonotonicTime now = options_.clock();
  const MutexLock lock(mutex_);
  if (draining_) return tl::unexpected(begins_no_other());
  // The queue says whether every epoch was delivered. Clients learn of it before `run` returns.
  if (job_ && job_->queue().finished()) {
    return tl::unexpected(Refusal{ErrorCode::kInvalidArgument,
                                  "every epoch has been delivered, and the node begins no other "
                                  "job: give it more epochs, or 0 for no end"});
  }
  if (job_ && !alone) {
    return tl::unexpected(retry_later(hello, *job_, now - job_->disputed_since(now)));
  }
  auto job = new_job(hello, job_.get(), options_.requirements, now, std::move(order));
  if (!job) return tl::unexpected(Refusal{job.error().code(), job.error().message()});
  return replace(*std::move(job));
}

tl::expected<JobTerms, Refusal> CurrentJob::repeat_step() {
  const MonotonicTime now = options_.clock();
  const MutexLock lock(mutex_);
  if (draining_) return tl::unexpected(begins_no_other());
  return replace(job_->repeat_step(now));
}

JobTerms CurrentJob::replace(Job job) {
  if (job_) of_past_jobs_ = sum(of_past_jobs_, job_->queue().delivered());
  job_ = std::make_unique<Job>(std::move(job));
  blocked_since_.reset();
  changed_.notify_all();
  return terms_of(*job_);
}

void CurrentJob::join(const ClientJoined& joined) {
  const MutexLock lock(mutex_);
  if (job_) job_->join(joined);
  changed_.notify_all();
}

void CurrentJob::leave(std::int32_t rank, bool lost) {
  const MonotonicTime now = options_.clock();
  const MutexLock lock(mutex_);
  if (job_) job_->leave(rank, lost, now);
  changed_.notify_all();
}

void CurrentJob::grant(std::int32_t rank, std::uint32_t microbatches) {
  const MutexLock lock(mutex_);
  if (has_rank(rank)) job_->queue().grant(rank, microbatches);
  changed_.notify_all();
}

void CurrentJob::acknowledge(std::int32_t rank, const Position& position) {
  const MutexLock lock(mutex_);
  if (has_rank(rank)) job_->queue().acknowledge(rank, position);
  ++changes_;
  changed_.notify_all();
}

CurrentJob::HeldStep CurrentJob::find(std::int32_t rank, const Position& position) const {
  const MutexLock lock(mutex_);
  if (!has_rank(rank)) return {};
  HeldStep held{job_->id(), job_->queue().find(position)};
  const auto receiver = static_cast<std::size_t>(rank);
  const bool planned =
      held.step != nullptr && position.microbatch < held.step->plan.microbatches_of(receiver);
  if (!planned) held.step = nullptr;
  return held;
}

Result<JobTerms> CurrentJob::wait_for_job(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const bool begun = changed_.wait(
      mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return job_ != nullptr || draining_; });
  if (!begun || job_ == nullptr) return stopped();
  return terms_of(*job_);
}

Status CurrentJob::wait_for_room(std::uint64_t job, const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const bool woken = changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) {
    return !serves(job) || draining_ || has_room();
  });
  if (!serves(job)) return superseded();
  return woken && !draining_ ? Status() : stopped();
}

Status CurrentJob::push(std::uint64_t job, std::shared_ptr<SealedStep> step) {
  const MutexLock lock(mutex_);
  if (!serves(job)) return superseded();
  if (draining_) return stopped();
  if (!job_->queue().any_unacknowledged()) ++changes_;
  job_->queue().push(std::move(step));
  changed_.notify_all();
  return {};
}

Status CurrentJob::push(std::uint64_t job, const EpochEnd& end) {
  const MutexLock lock(mutex_);
  if (!serves(job)) return superseded();
  if (draining_) return stopped();
  job_->queue().push(end);
  changed_.notify_all();
  return {};
}

Result<CurrentJob::Next> CurrentJob::next(std::uint64_t job, std::chrono::nanoseconds limit,
                                          const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  std::optional<DeliveryQueue::Delivery> delivery;
  bool behind = false;
  const bool woken = changed_.wait_for(mutex_, stop, limit, [&]() ISOCOST_REQUIRES(mutex_) {
    if (failure_ || !serves(job) || job_->queue().finished() || drained()) return true;
    behind = job_->queue().any_unacknowledged();
    delivery = job_->queue().next();
    return delivery.has_value();
  });
  if (failure_) return *failure_;
  if (stop.stop_requested()) return stopped();
  if (!woken) return Next(NothingToSend{});
  if (!serves(job)) return superseded();
  if (!delivery) return Next(Finished{});
  if (!behind) ++changes_;
  changed_.notify_all();  // fewer steps wait to be sent, so planning may continue
  const std::uint64_t session = job_->session(delivery->rank);
  return Next(Outgoing{*std::move(delivery), session});
}

std::optional<CurrentJob::BlockedRanks> CurrentJob::blocked_ranks(std::uint64_t job,
                                                                  std::chrono::nanoseconds least) {
  const MonotonicTime now = options_.clock();
  const MutexLock lock(mutex_);
  if (!serves(job)) return std::nullopt;
  const DeliveryQueue& queue = job_->queue();
  const std::optional<std::int32_t> absent = queue.absent_rank();
  if (!absent || has_room()) {
    blocked_since_.reset();
    return std::nullopt;
  }
  if (!blocked_since_) blocked_since_ = now;
  if (now - std::max(*blocked_since_, job_->absent_since(*absent)) < least) return std::nullopt;
  BlockedRanks blocked{*absent, job_->joined_before(*absent), {}};
  for (std::int32_t rank = 0; rank < job_->ranks(); ++rank) {
    if (queue.waits_for_data(rank)) blocked.waiting.push_back({rank, job_->session(rank)});
  }
  return blocked;
}

std::optional<std::int32_t> CurrentJob::missing_rank(std::uint64_t job,
                                                     std::chrono::nanoseconds least) {
  const MonotonicTime now = options_.clock();
  const MutexLock lock(mutex_);
  if (!serves(job)) return std::nullopt;
  const auto rank = job_->queue().unfinished_absent_rank();
  const bool has_gone = rank && job_->joined_before(*rank);
  if (!has_gone || now - job_->absent_since(*rank) < least) return std::nullopt;
  if (!job_->queue().excuse(*rank)) return rank;
  changed_.notify_all();
  return std::nullopt;
}

void CurrentJob::drain() {
  const MutexLock lock(mutex_);
  if (std::exchange(draining_, true)) return;
  if (job_) drained_at_ = job_->queue().end_early();
  changed_.notify_all();
}

std::optional<Position> CurrentJob::drained_at() const {
  const MutexLock lock(mutex_);
  return drained_at_;
}

UnfinishedRanks CurrentJob::unfinished() const {
  const MutexLock lock(mutex_);
  return job_ ? job_->queue().unfinished() : UnfinishedRanks();
}

bool CurrentJob::draining() const {
  const MutexLock lock(mutex_);
  return draining_;
}

void CurrentJob::fail(Error error) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  changed_.notify_all();
}

bool CurrentJob::wait_until_joined(std::chrono::nanoseconds limit) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(
      mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) { return !job_ || job_->all_joined(); });
}

bool CurrentJob::wait_until_left(std::chrono::nanoseconds limit) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, limit, [this]() ISOCOST_REQUIRES(mutex_) {
    return !job_ || (job_->all_joined() && job_->all_left());
  });
}

CurrentJob::Depth CurrentJob::depth() const {
  const MutexLock lock(mutex_);
  if (!job_) return {};
  return {job_->ranks(), job_->queue().present(), job_->queue().depth()};
}

StallWatch::Activity CurrentJob::activity() const {
  const MutexLock lock(mutex_);
  // Lost ranks are expected back; ranks that announced that they leave have done their part.
  const bool begun = job_ && (job_->queue().present() > 0 || job_->any_lost());
  return {begun && !draining_ && !failure_ && !job_->queue().finished(), changes_};
}

std::vector<DeliveryQueue::Behind> CurrentJob::behind() const {
  const MutexLock lock(mutex_);
  return job_ ? job_->queue().behind() : std::vector<DeliveryQueue::Behind>();
}

DeliveryCounts CurrentJob::delivered() const {
  const MutexLock lock(mutex_);
  return job_ ? sum(of_past_jobs_, job_->queue().delivered()) : of_past_jobs_;
}

DeliveryCounts CurrentJob::delivered_of_job() const {
  const MutexLock lock(mutex_);
  return job_ ? job_->queue().delivered() : DeliveryCounts();
}

}  // namespace isocost
