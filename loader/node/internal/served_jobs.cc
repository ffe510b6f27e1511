#include "loader/node/internal/served_jobs.h"

#include <utility>

#include "loader/node/internal/saved_state_check.h"

namespace isocost {
namespace {

Error superseded() { return {ErrorCode::kCancelled, "another job has begun"}; }
Error stopped() { return {ErrorCode::kCancelled, "the node was asked to stop"}; }

Refusal begins_no_other() {
  return {ErrorCode::kDraining, "the node is draining and begins no other job"};
}

JobTerms terms_of(const Job& job) {
  return {job.id(), job.ranks(), job.start(), job.order(), job.cost_model_state()};
}

DeliveryCounts sum(const DeliveryCounts& a, const DeliveryCounts& b) {
  return {a.steps + b.steps, a.samples + b.samples};
}

}  // namespace

tl::expected<ServedJobs::Admission, Refusal> ServedJobs::admit(
    const JoinRequest& request, std::shared_ptr<const JobOrder> order, MonotonicTime now) {
  const Hello& hello = request.hello;
  const auto decision = evaluate_join(hello, request.same_client, job_.get(), requirements_);
  if (!decision) return tl::unexpected(decision.error());
  if (*decision == JoinDecision::kAnswer) {
    Admission question;
    question.job.ranks = requested_ranks(hello, requirements_, job_.get());
    if (job_) question.job.order = job_->order();
    return question;
  }
  if (*decision != JoinDecision::kNewJob && request.rank_taken) {
    return tl::unexpected(*request.rank_taken);
  }
  if (*decision == JoinDecision::kJoin) return let_join(hello);
  if (*decision == JoinDecision::kJoinOrRepeatStep) {
    return request.alone ? repeat_step(hello, now) : let_join(hello);
  }
  auto job = begin(hello, request.alone, std::move(order), now);
  if (!job) return tl::unexpected(job.error());
  return Admission{Admission::Kind::kBegun, *std::move(job), {}};
}

ServedJobs::Admission ServedJobs::let_join(const Hello& hello) const {
  const Position next = job_->queue().next_of(hello.rank);
  Admission joined{Admission::Kind::kJoined, terms_of(*job_), {next, job_->asked_start()}};
  joined.job.start.epoch = next.epoch;
  joined.job.start.step = next.step;
  return joined;
}

tl::expected<ServedJobs::Admission, Refusal> ServedJobs::repeat_step(const Hello& hello,
                                                                     MonotonicTime now) {
  if (draining_) return tl::unexpected(begins_no_other());
  Admission repeated = let_join(hello);
  repeated.kind = Admission::Kind::kRepeated;
  repeated.job = replace(job_->repeat_step(now));
  const StartPoint& start = repeated.job.start;
  repeated.unasked.next = {start.epoch, start.step, 0};
  return repeated;
}

tl::expected<JobTerms, Refusal> ServedJobs::begin(const Hello& hello, bool alone,
                                                  std::shared_ptr<const JobOrder> order,
                                                  MonotonicTime now) {
  if (draining_) return tl::unexpected(begins_no_other());
  // The queue says whether everything is trained, before the delivering thread has noticed. A job
  // that has trained on nothing, as one that was saved after its last epoch, may be another's yet.
  const bool trained = job_ && job_->queue().all_trained() && job_->queue().acknowledged_any();
  if (trained || (job_ && job_->queue().finished())) {
    return tl::unexpected(Refusal{ErrorCode::kInvalidArgument,
                                  "every epoch has been delivered, and the node begins no other "
                                  "job: give it more epochs, or 0 for no end"});
  }
  if (job_ && !alone) {
    return tl::unexpected(retry_later(hello, *job_, now - job_->disputed_since(now)));
  }
  if (order != nullptr) {
    const auto epochs = static_cast<std::uint64_t>(requirements_.options.plan.epochs);
    auto beyond = check_saved_position(hello, epochs, order->cursor.steps(hello.start.epoch));
    if (beyond) return tl::unexpected(*std::move(beyond));
  }
  auto job = new_job(hello, job_.get(), requirements_, now, std::move(order));
  if (!job) return tl::unexpected(Refusal{job.error().code(), job.error().message()});
  return replace(*std::move(job));
}

JobTerms ServedJobs::replace(Job job) {
  if (job_) of_past_jobs_ = sum(of_past_jobs_, job_->queue().delivered());
  job_ = std::make_unique<Job>(std::move(job));
  blocked_since_.reset();
  return terms_of(*job_);
}

void ServedJobs::join(const ClientJoined& joined) {
  if (job_) job_->join(joined);
}

void ServedJobs::leave(std::int32_t rank, bool lost, MonotonicTime now) {
  if (job_) job_->leave(rank, lost, now);
}

void ServedJobs::hear(std::int32_t rank, MonotonicTime now) {
  if (job_) job_->hear(rank, now);
}

void ServedJobs::grant(std::int32_t rank, std::uint32_t microbatches) {
  if (has_rank(rank)) job_->queue().grant(rank, microbatches);
}

void ServedJobs::acknowledge(std::int32_t rank, const Position& position) {
  if (has_rank(rank)) job_->queue().acknowledge(rank, position);
  ++changes_;
}

ServedJobs::HeldStep ServedJobs::find(std::int32_t rank, const Position& position) const {
  if (!has_rank(rank)) return {};
  HeldStep held{job_->id(), job_->queue().find(position)};
  const auto receiver = static_cast<std::size_t>(rank);
  const bool planned =
      held.step != nullptr && position.microbatch < held.step->plan.microbatches_of(receiver);
  if (!planned) held.step = nullptr;
  return held;
}

JobTerms ServedJobs::terms() const { return terms_of(*job_); }

Status ServedJobs::check_open(std::uint64_t job) const {
  if (!serves(job)) return superseded();
  if (draining_) return stopped();
  return {};
}

Status ServedJobs::push(std::uint64_t job, std::shared_ptr<SealedStep> step) {
  ISOCOST_TRY(check_open(job));
  if (!job_->queue().any_unacknowledged()) ++changes_;
  job_->queue().push(std::move(step));
  return {};
}

Status ServedJobs::push(std::uint64_t job, const EpochEnd& end) {
  ISOCOST_TRY(check_open(job));
  job_->queue().push(end);
  return {};
}

Result<ServedJobs::Next> ServedJobs::next(std::uint64_t job) {
  if (failure_) return *failure_;
  if (!serves(job)) return superseded();
  if (job_->queue().finished() || drained()) return Next(Finished{});
  const bool behind = job_->queue().any_unacknowledged();
  auto delivery = job_->queue().next();
  if (!delivery) return Next(NothingToSend{});
  if (!behind) ++changes_;
  const std::uint64_t session = job_->session(delivery->rank);
  return Next(Outgoing{*std::move(delivery), session});
}

std::optional<ServedJobs::BlockedRanks> ServedJobs::blocked_ranks(std::uint64_t job,
                                                                  std::chrono::nanoseconds least,
                                                                  MonotonicTime now) {
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

std::optional<std::int32_t> ServedJobs::missing_rank(std::uint64_t job,
                                                     std::chrono::nanoseconds least,
                                                     MonotonicTime now) {
  if (!serves(job)) return std::nullopt;
  const auto is_away = [&](std::int32_t rank) {
    return job_->joined_before(rank) && now - job_->absent_since(rank) >= least;
  };
  DeliveryQueue& queue = job_->queue();
  const auto untold = queue.untold_absent_rank();
  if (untold && is_away(*untold)) queue.excuse(*untold);
  const auto rank = queue.unfinished_absent_rank();
  return rank && is_away(*rank) ? rank : std::nullopt;
}

void ServedJobs::drain() {
  if (std::exchange(draining_, true)) return;
  if (job_) drained_at_ = job_->queue().end_early();
}

UnfinishedRanks ServedJobs::unfinished() const {
  return job_ ? job_->queue().unfinished() : UnfinishedRanks();
}

void ServedJobs::fail(Error error) {
  if (!failure_) failure_ = std::move(error);
}

ServedJobs::Depth ServedJobs::depth() const {
  if (!job_) return {};
  return {job_->ranks(), job_->queue().present(), job_->queue().depth()};
}

StallWatch::Activity ServedJobs::activity() const {
  // Lost ranks are expected back; ranks that announced that they leave have done their part.
  const bool begun = job_ && (job_->queue().present() > 0 || job_->any_lost());
  return {begun && !draining_ && !failure_ && !job_->queue().finished(), changes_};
}

std::vector<DeliveryQueue::Behind> ServedJobs::behind() const {
  return job_ ? job_->queue().behind() : std::vector<DeliveryQueue::Behind>();
}

DeliveryCounts ServedJobs::delivered() const {
  return job_ ? sum(of_past_jobs_, job_->queue().delivered()) : of_past_jobs_;
}

DeliveryCounts ServedJobs::delivered_of_job() const {
  return job_ ? job_->queue().delivered() : DeliveryCounts();
}

}  // namespace isocost
