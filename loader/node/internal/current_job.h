#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/node/internal/served_jobs.h"

namespace isocost {

/// ServedJobs for threads that wait for each other: the socket's thread lets clients join and
/// passes on what they say, the planning thread adds steps, and the delivering thread takes
/// microbatches. Functions are those of ServedJobs with the same names, at the time of the clock.
/// Internally synchronised; it neither logs nor calls back while it holds its lock.
class CurrentJob {
 public:
  struct Options {
    JoinRequirements requirements;
    std::size_t plan_ahead = 2;  ///< See ServedJobs.
    MonotonicClock clock = steady_clock();
  };
  explicit CurrentJob(Options options)
      : clock_(std::move(options.clock)), jobs_(options.requirements, options.plan_ahead) {}

  using Admission = ServedJobs::Admission;
  using HeldStep = ServedJobs::HeldStep;
  using Outgoing = ServedJobs::Outgoing;
  using NothingToSend = ServedJobs::NothingToSend;
  using Finished = ServedJobs::Finished;
  using Next = ServedJobs::Next;
  using Waiting = ServedJobs::Waiting;
  using BlockedRanks = ServedJobs::BlockedRanks;
  using Depth = ServedJobs::Depth;

  // For the socket's thread.

  tl::expected<Admission, Refusal> admit(const JoinRequest& request,
                                         std::shared_ptr<const JobOrder> order)
      ISOCOST_EXCLUDES(mutex_);
  tl::expected<JobTerms, Refusal> begin(const Hello& hello, bool alone,
                                        std::shared_ptr<const JobOrder> order = nullptr)
      ISOCOST_EXCLUDES(mutex_);
  void join(const ClientJoined& joined) ISOCOST_EXCLUDES(mutex_);
  void leave(std::int32_t rank, bool lost = false) ISOCOST_EXCLUDES(mutex_);
  void hear(std::int32_t rank) ISOCOST_EXCLUDES(mutex_);
  void grant(std::int32_t rank, std::uint32_t microbatches) ISOCOST_EXCLUDES(mutex_);
  void acknowledge(std::int32_t rank, const Position& position) ISOCOST_EXCLUDES(mutex_);
  HeldStep find(std::int32_t rank, const Position& position) const ISOCOST_EXCLUDES(mutex_);

  // For planning.

  /// Blocks until there is a job. Errors: kCancelled.
  Result<JobTerms> wait_for_job(const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  /// Blocks until at most `plan_ahead` steps wait for the slowest rank. Errors: kCancelled, also
  /// if another job has begun.
  Status wait_for_room(std::uint64_t job, const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  Status push(std::uint64_t job, std::shared_ptr<SealedStep> step) ISOCOST_EXCLUDES(mutex_);
  Status push(std::uint64_t job, const EpochEnd& end) ISOCOST_EXCLUDES(mutex_);

  // For delivery.

  /// Blocks until something may be sent, and counts it as sent. Returns NothingToSend after
  /// `limit`, and Finished when every rank has acknowledged the last epoch. Errors: the one that
  /// `fail` was given; kCancelled, also if another job has begun.
  Result<Next> next(std::uint64_t job, std::chrono::nanoseconds limit, const std::stop_token& stop)
      ISOCOST_EXCLUDES(mutex_);
  std::optional<BlockedRanks> blocked_ranks(std::uint64_t job, std::chrono::nanoseconds least)
      ISOCOST_EXCLUDES(mutex_);
  std::optional<std::int32_t> missing_rank(std::uint64_t job, std::chrono::nanoseconds least)
      ISOCOST_EXCLUDES(mutex_);

  // For any thread.

  void drain() ISOCOST_EXCLUDES(mutex_);
  std::optional<Position> drained_at() const ISOCOST_EXCLUDES(mutex_);
  UnfinishedRanks unfinished() const ISOCOST_EXCLUDES(mutex_);
  bool draining() const ISOCOST_EXCLUDES(mutex_);
  void fail(Error error) ISOCOST_EXCLUDES(mutex_);
  /// Blocks until every rank has joined, or `limit` has passed. Returns whether all have.
  bool wait_until_joined(std::chrono::nanoseconds limit) ISOCOST_EXCLUDES(mutex_);
  /// Blocks until every rank has joined and left, or `limit` has passed. Returns whether all have;
  /// true without a job.
  bool wait_until_left(std::chrono::nanoseconds limit) ISOCOST_EXCLUDES(mutex_);
  Depth depth() const ISOCOST_EXCLUDES(mutex_);
  StallWatch::Activity activity() const ISOCOST_EXCLUDES(mutex_);
  std::vector<DeliveryQueue::Behind> behind() const ISOCOST_EXCLUDES(mutex_);
  DeliveryCounts delivered() const ISOCOST_EXCLUDES(mutex_);
  DeliveryCounts delivered_of_job() const ISOCOST_EXCLUDES(mutex_);

 private:
  const MonotonicClock clock_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  ServedJobs jobs_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
