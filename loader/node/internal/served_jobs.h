#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/internal/delivery_queue.h"
#include "loader/node/internal/job.h"
#include "loader/node/internal/job_order.h"
#include "loader/node/internal/join.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/node/internal/stall_watch.h"
#include "loader/node/internal/unasked_start.h"
#include "transport/protocol/client_events.h"
#include "transport/protocol/join_request.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Identity and start of a job. A plain value.
struct JobTerms {
  std::uint64_t id = 0;
  std::int32_t ranks = 0;
  StartPoint start;
  std::shared_ptr<const JobOrder> order;  ///< See JobOrders.
  /// The cost model's part of the state from which the job's first client resumes; null: none.
  std::shared_ptr<const std::string> cost_model_state;
};

/// The jobs that a node serves, one after another: who may join, which job begins, what each rank
/// is sent next and when the node is done. A state machine without socket, clock, thread or lock:
/// times are arguments. Functions that name a job refuse others than the present one.
/// Single-thread; see CurrentJob for threads that wait.
class ServedJobs {
 public:
  /// `plan_ahead`: most steps that may be planned and not yet sent to every rank.
  ServedJobs(JoinRequirements requirements, std::size_t plan_ahead)
      : requirements_(requirements), plan_ahead_(plan_ahead) {}

  // Events of clients. Ranks that the job does not have are ignored.

  /// The job that a client is let in to.
  struct Admission {
    enum class Kind : std::uint8_t {
      kQuestion,  ///< It has no rank, and asks only for the welcome.
      kJoined,    ///< It joins the present job.
      kRepeated,  ///< A new job begins again at the step inside which the last run ended.
      kBegun,     ///< The job begins that it asks for.
    };
    Kind kind = Kind::kQuestion;
    /// With kJoined, its start is the step at which the rank continues; with kQuestion, it has the
    /// number of ranks alone, and the order if there is a job.
    JobTerms job;
    UnaskedStart unasked;  ///< Valid for kJoined and kRepeated.
  };
  /// Decides about a client that says hello, and begins the job that this takes: see evaluate_join,
  /// Job::repeat_step and `begin`. `order`: the samples of the job that it asks for. Errors: those
  /// of evaluate_join and `begin`; `request.rank_taken`, unless another job would begin.
  tl::expected<Admission, Refusal> admit(const JoinRequest& request,
                                         std::shared_ptr<const JobOrder> order, MonotonicTime now);
  /// Begins the job that the client asks for. `alone`: no other client is connected. `order`: the
  /// samples of the job's steps. Errors: those of new_job and check_saved_position; retry_later
  /// where a job has other clients; kDraining; kInvalidArgument once every rank is done with the
  /// last epoch, after which nobody plans another step.
  tl::expected<JobTerms, Refusal> begin(const Hello& hello, bool alone,
                                        std::shared_ptr<const JobOrder> order, MonotonicTime now);
  void join(const ClientJoined& joined);
  void leave(std::int32_t rank, bool lost, MonotonicTime now);
  void hear(std::int32_t rank, MonotonicTime now);
  void grant(std::int32_t rank, std::uint32_t microbatches);
  void acknowledge(std::int32_t rank, const Position& position);

  // Planning.

  bool draining() const { return draining_; }
  bool any() const { return job_ != nullptr; }
  /// Returns the present job, of which there must be one.
  JobTerms terms() const;
  /// Returns whether at most `plan_ahead` steps wait for the slowest rank. There must be a job.
  bool has_room() const { return job_->queue().ahead() <= plan_ahead_; }
  /// Returns whether steps may still be added. Errors: kCancelled if another job has begun, or
  /// while draining.
  Status check_open(std::uint64_t job) const;
  /// Adds a step, or an end of epoch. Errors: those of check_open.
  Status push(std::uint64_t job, std::shared_ptr<SealedStep> step);
  Status push(std::uint64_t job, const EpochEnd& end);

  // Delivery.

  struct Outgoing {
    DeliveryQueue::Delivery delivery;
    std::uint64_t session = 0;  ///< Session of the client that holds the rank.
  };
  struct NothingToSend {};
  struct Finished {};
  using Next = std::variant<Outgoing, NothingToSend, Finished>;
  /// Returns what may be sent now, and counts it as sent, or Finished when every rank has
  /// acknowledged the last epoch. Errors: the one that `fail` was given; kCancelled if another job
  /// has begun.
  Result<Next> next(std::uint64_t job);

  struct HeldStep {
    std::uint64_t job = 0;
    std::shared_ptr<const SealedStep> step;
  };
  /// Returns the step of a rank's microbatch while it is held; a null step otherwise.
  HeldStep find(std::int32_t rank, const Position& position) const;

  /// A rank that has credit and nothing to receive, and its client's session.
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
  std::optional<BlockedRanks> blocked_ranks(std::uint64_t job, std::chrono::nanoseconds least,
                                            MonotonicTime now);
  /// Returns the only rank that keeps the job from its end: see
  /// DeliveryQueue::unfinished_absent_rank. Returns nothing if it has been away for less than
  /// `least`, or another job has begun. One that has been away for longer, and only is not known to
  /// have been told the end of the last epoch, counts as done from now on.
  std::optional<std::int32_t> missing_rank(std::uint64_t job, std::chrono::nanoseconds least,
                                           MonotonicTime now);

  // The end.

  /// Begins no further step and no other job. `next` returns Finished when ranks have acknowledged
  /// every step of which anything was sent, or when no rank has a client.
  void drain();
  /// Returns the first step that was not delivered, once `drain` was called; nothing without a job.
  std::optional<Position> drained_at() const { return drained_at_; }
  /// Makes `next` fail with this error. The first failure counts.
  void fail(Error error);
  /// Return whether every rank has had a client, and whether all of them have left; true without a
  /// job.
  bool all_joined() const { return !job_ || job_->all_joined(); }
  bool all_joined_and_left() const { return !job_ || (job_->all_joined() && job_->all_left()); }

  // State.

  /// Returns the ranks that have not acknowledged all that was planned; none without a job.
  UnfinishedRanks unfinished() const;
  struct Depth {
    std::int64_t ranks = 0;  ///< 0 before the first job.
    std::int64_t present = 0;
    QueueDepth queue;
  };
  Depth depth() const;
  /// Returns whether ranks train, and a number that grows whenever a rank acknowledges a
  /// microbatch, and, while every microbatch that was sent is acknowledged, whenever a step is
  /// planned or a microbatch is sent. A rank that takes microbatches and acknowledges none thus
  /// stalls, too.
  StallWatch::Activity activity() const;
  /// See DeliveryQueue::behind; empty without a job.
  std::vector<DeliveryQueue::Behind> behind() const;
  /// Returns the number of steps and samples that ranks of all jobs so far have acknowledged.
  DeliveryCounts delivered() const;
  /// Returns only those of the present job.
  DeliveryCounts delivered_of_job() const;

 private:
  Admission let_join(const Hello& hello) const;
  tl::expected<Admission, Refusal> repeat_step(const Hello& hello, MonotonicTime now);
  JobTerms replace(Job job);
  bool serves(std::uint64_t job) const { return job_ && job_->id() == job; }
  bool has_rank(std::int32_t rank) const { return job_ && rank >= 0 && rank < job_->ranks(); }
  // Returns whether no client is left to deliver to while draining.
  bool drained() const { return draining_ && job_->all_left(); }

  const JoinRequirements requirements_;
  const std::size_t plan_ahead_;
  std::unique_ptr<Job> job_;  // null before the first
  DeliveryCounts of_past_jobs_;
  std::optional<Error> failure_;
  bool draining_ = false;
  std::uint64_t changes_ = 0;  // see activity()
  std::optional<MonotonicTime> blocked_since_;
  std::optional<Position> drained_at_;
};

}  // namespace isocost
