#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/internal/delivery_queue.h"
#include "loader/node/internal/job.h"
#include "loader/node/internal/job_order.h"
#include "loader/node/internal/join.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/node/internal/stall_watch.h"
#include "loader/node/internal/unasked_start.h"
#include "transport/wire/messages.h"
#include "transport/zmq/server.h"

namespace isocost {

/// Identity and start of a job. A plain value.
struct JobTerms {
  std::uint64_t id = 0;
  std::int32_t ranks = 0;
  StartPoint start;
  std::shared_ptr<const JobOrder> order;  ///< See JobOrders.
};

/// The job that a node serves now, and its delivery queue. The socket's thread lets clients join
/// and passes on what they say, the planning thread adds steps, the delivering thread takes
/// microbatches, and all of them wait here for each other. Internally synchronised; it neither logs
/// nor calls back while it holds its lock.
class CurrentJob {
 public:
  struct Options {
    JoinRequirements requirements;
    std::size_t plan_ahead = 2;  ///< Most steps that may be planned and not yet sent to every rank.
    MonotonicClock clock = steady_clock();
  };
  explicit CurrentJob(Options options) : options_(std::move(options)) {}

  // Functions for joining, on the socket's thread.

  struct Evaluation {
    JoinDecision decision = JoinDecision::kNewJob;
    /// Valid where the decision is kJoin or kJoinOrRepeatStep, where its start is the step at which
    /// the rank continues; for kAnswer, the number of ranks and the order, if there is a job.
    JobTerms job;
    UnaskedStart unasked;  ///< Valid where the decision is kJoin or kJoinOrRepeatStep.

    bool joins() const {
      return decision == JoinDecision::kJoin || decision == JoinDecision::kJoinOrRepeatStep;
    }
  };
  /// See evaluate_join.
  tl::expected<Evaluation, Refusal> evaluate(const Hello& hello, bool same_client) const
      ISOCOST_EXCLUDES(mutex_);
  /// Begins the job again at the step inside which the last run ended: see repeat_step. Errors:
  /// kDraining.
  tl::expected<JobTerms, Refusal> repeat_step() ISOCOST_EXCLUDES(mutex_);
  /// Begins the job that the client asks for. `alone`: no other client is connected. `order`: the
  /// samples of the job's steps. Errors: those
  /// of new_job; retry_later where a job has other clients; kInvalidArgument once every rank is
  /// done with the last epoch, after which nobody plans another step.
  tl::expected<JobTerms, Refusal> begin(const Hello& hello, bool alone,
                                        std::shared_ptr<const JobOrder> order = nullptr)
      ISOCOST_EXCLUDES(mutex_);

  // Functions for what clients say, on the socket's thread. Ranks that the job does not have are
  // ignored.

  void join(const ClientJoined& joined) ISOCOST_EXCLUDES(mutex_);
  void leave(std::int32_t rank, bool lost = false) ISOCOST_EXCLUDES(mutex_);
  void grant(std::int32_t rank, std::uint32_t microbatches) ISOCOST_EXCLUDES(mutex_);
  void acknowledge(std::int32_t rank, const Position& position) ISOCOST_EXCLUDES(mutex_);

  struct HeldStep {
    std::uint64_t job = 0;
    std::shared_ptr<const SealedStep> step;
  };
  /// Returns the step of a rank's microbatch while it is held; a null step otherwise.
  HeldStep find(std::int32_t rank, const Position& position) const ISOCOST_EXCLUDES(mutex_);

  // Functions for planning.

  /// Blocks until there is a job. Errors: kCancelled.
  Result<JobTerms> wait_for_job(const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  /// Blocks until at most `plan_ahead` steps wait for the slowest rank. Errors: kCancelled, also
  /// if another job has begun.
  Status wait_for_room(std::uint64_t job, const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  /// Adds a step. Errors: kCancelled if another job has begun.
  Status push(std::uint64_t job, std::shared_ptr<SealedStep> step) ISOCOST_EXCLUDES(mutex_);
  Status push(std::uint64_t job, const EpochEnd& end) ISOCOST_EXCLUDES(mutex_);

  // Functions for delivery.

  struct Outgoing {
    DeliveryQueue::Delivery delivery;
    std::uint64_t session = 0;  ///< Session of the client that holds the rank.
  };
  struct NothingToSend {};
  struct Finished {};
  using Next = std::variant<Outgoing, NothingToSend, Finished>;
  /// Blocks until something may be sent, and counts it as sent. Returns NothingToSend after
  /// `limit`, and Finished when every rank has acknowledged the last epoch. Errors: the one that
  /// `fail` was given; kCancelled, also if another job has begun.
  Result<Next> next(std::uint64_t job, std::chrono::nanoseconds limit, const std::stop_token& stop)
      ISOCOST_EXCLUDES(mutex_);

  struct Waiting {
    std::int32_t rank = 0;
    std::uint64_t session = 0;
  };
  /// Ranks that cannot continue because another one has no client.
  struct BlockedRanks {
    std::int32_t absent = 0;     ///< The rank without a client, for which planning waits.
    bool joined_before = false;  ///< Whether it had a client.
    std::vector<Waiting> waiting;
  };
  /// Returns the blocked ranks; nothing if no rank is blocked, if they have waited for less
  /// than `least` or the rank that they wait for has been away for less, or if another job has
  /// begun. Waiting begins with the first call that finds it.
  std::optional<BlockedRanks> blocked_ranks(std::uint64_t job, std::chrono::nanoseconds least)
      ISOCOST_EXCLUDES(mutex_);

  /// Returns the only rank that keeps the job from its end: see
  /// DeliveryQueue::unfinished_absent_rank. Returns nothing if it has been away for less than
  /// `least`, or another job has begun. One that has been away for longer, and only was not sent
  /// the end of the last epoch, counts as done from now on.
  std::optional<std::int32_t> missing_rank(std::uint64_t job, std::chrono::nanoseconds least)
      ISOCOST_EXCLUDES(mutex_);

  // Functions for any thread.

  /// Begins no further step and no other job. `next` returns Finished when ranks have acknowledged
  /// every step of which anything was sent, or when no rank has a client.
  void drain() ISOCOST_EXCLUDES(mutex_);
  /// Returns the first step that was not delivered, once `drain` was called; nothing without a job.
  std::optional<Position> drained_at() const ISOCOST_EXCLUDES(mutex_);
  /// Returns the ranks that have not acknowledged all that was planned; none without a job.
  UnfinishedRanks unfinished() const ISOCOST_EXCLUDES(mutex_);
  bool draining() const ISOCOST_EXCLUDES(mutex_);
  /// Makes `next` fail with this error. The first failure counts.
  void fail(Error error) ISOCOST_EXCLUDES(mutex_);
  /// Blocks until every rank has joined, or `limit` has passed. Returns whether all have.
  bool wait_until_joined(std::chrono::nanoseconds limit) ISOCOST_EXCLUDES(mutex_);
  /// Blocks until every rank has joined and left, or `limit` has passed. Returns whether all have;
  /// true without a job.
  bool wait_until_left(std::chrono::nanoseconds limit) ISOCOST_EXCLUDES(mutex_);

  struct Depth {
    std::int64_t ranks = 0;  ///< 0 before the first job.
    std::int64_t present = 0;
    QueueDepth queue;
  };
  Depth depth() const ISOCOST_EXCLUDES(mutex_);
  /// Returns whether ranks train, and a number that grows whenever a rank acknowledges a
  /// microbatch, and, while every microbatch that was sent is acknowledged, whenever a step is
  /// planned or a microbatch is sent. A rank that takes microbatches and acknowledges none thus
  /// stalls, too.
  StallWatch::Activity activity() const ISOCOST_EXCLUDES(mutex_);
  /// See DeliveryQueue::behind; empty without a job.
  std::vector<DeliveryQueue::Behind> behind() const ISOCOST_EXCLUDES(mutex_);
  /// Returns the number of steps and samples that ranks of all jobs so far have acknowledged.
  DeliveryCounts delivered() const ISOCOST_EXCLUDES(mutex_);
  /// Returns only those of the present job.
  DeliveryCounts delivered_of_job() const ISOCOST_EXCLUDES(mutex_);

 private:
  JobTerms replace(Job job) ISOCOST_REQUIRES(mutex_);
  bool serves(std::uint64_t job) const ISOCOST_REQUIRES(mutex_) {
    return job_ && job_->id() == job;
  }
  bool has_rank(std::int32_t rank) const ISOCOST_REQUIRES(mutex_) {
    return job_ && rank >= 0 && rank < job_->ranks();
  }
  // Returns whether no client is left to deliver to while draining.
  bool drained() const ISOCOST_REQUIRES(mutex_) { return draining_ && job_->all_left(); }
  bool has_room() const ISOCOST_REQUIRES(mutex_) {
    return job_->queue().ahead() <= options_.plan_ahead;
  }

  const Options options_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::unique_ptr<Job> job_ ISOCOST_GUARDED_BY(mutex_);  // null before the first
  DeliveryCounts of_past_jobs_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);
  bool draining_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::uint64_t changes_ ISOCOST_GUARDED_BY(mutex_) = 0;  // see activity()
  std::optional<MonotonicTime> blocked_since_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> drained_at_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
