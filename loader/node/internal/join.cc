#include "loader/node/internal/join.h"

#include <string>
#include <utility>

#include "base/counted.h"
#include "loader/node/internal/saved_state_check.h"

namespace isocost {
namespace {

// Time within which the connections of killed processes are found to be closed.
constexpr std::chrono::seconds kDisconnectDelay{2};

std::string describe(std::int32_t ranks, const StartPoint& start) {
  return counted(ranks, "rank") + " from epoch " + std::to_string(start.epoch) + ", step " +
         std::to_string(start.step);
}

StartPoint requested_start(const Hello& hello, const Job* job) {
  if (hello.has_start) return {0, hello.start.epoch, hello.start.step, {}, hello.start.mixture};
  return job == nullptr ? StartPoint{} : job->start();
}

// Refuses a trainer with another layout, which would compute on tensors that are meant for another
// stage.
std::optional<Refusal> check_layout(const Hello& hello, const JoinRequirements& requirements) {
  const bool no_stages = hello.layout == 0 && !requirements.staged;
  if (hello.layout == requirements.layout || no_stages) return std::nullopt;
  const std::string client = client_name(hello);
  if (requirements.layout == 0) {
    return Refusal{
        ErrorCode::kInvalidArgument,
        client + " has a layout, but the node has none: start the node with the same one"};
  }
  return Refusal{ErrorCode::kInvalidArgument,
                 client +
                     (hello.layout == 0 ? " has no layout, but the node has one ("
                                        : " has another layout than the node (") +
                     requirements.options.plan.layout_file.string() +
                     "): start both with this file"};
}

// Refuses a client that leaves the number of ranks to a node that does not know it. If the node
// took it for the only rank, it alone would train on everything, and the node would refuse others.
std::optional<Refusal> check_world_size(const Hello& hello, const JoinRequirements& requirements,
                                        const Job* job) {
  const bool known = requirements.receivers > 0 || hello.world_size > 0 || job != nullptr;
  if (known || hello.rank == kNoRank) return std::nullopt;
  return Refusal{ErrorCode::kInvalidArgument,
                 client_name(hello) +
                     " gives no world_size, and the node was started without --ranks: set "
                     "world_size to the number of ranks on every rank (1 for a single one), or "
                     "give the node --ranks"};
}

// Returns whether a run may have ended that the new client of `rank` did not belong to. If all
// ranks that have left were done with everything, a rank that never came before is merely late.
bool has_ended(const Job& job, std::int32_t rank) {
  return job.joined_before(rank) || job.any_gave_up();
}

tl::unexpected<Refusal> refuse(ErrorCode code, std::string reason) {
  return tl::unexpected(Refusal{code, std::move(reason)});
}

}  // namespace

std::int32_t requested_ranks(const Hello& hello, const JoinRequirements& requirements,
                             const Job* job) {
  if (requirements.receivers > 0) return static_cast<std::int32_t>(requirements.receivers);
  if (hello.world_size > 0) return hello.world_size;
  return job == nullptr ? 1 : job->ranks();
}

tl::expected<JoinDecision, Refusal> evaluate_join(const Hello& hello, bool same_client,
                                                  const Job* job,
                                                  const JoinRequirements& requirements) {
  if (auto refusal = check_layout(hello, requirements)) return tl::unexpected(*std::move(refusal));
  if (auto refusal = check_world_size(hello, requirements, job)) {
    return tl::unexpected(*std::move(refusal));
  }
  const std::int32_t ranks = requested_ranks(hello, requirements, job);
  if (auto refusal = check_rank(hello, ranks)) return tl::unexpected(*std::move(refusal));
  if (auto refusal =
          check_saved_order(hello, requirements.cursor, requirements.options.plan.lookahead)) {
    return tl::unexpected(*std::move(refusal));
  }
  if (hello.rank == kNoRank) return JoinDecision::kAnswer;
  if (job == nullptr) return JoinDecision::kNewJob;
  if (hello.job != 0 && hello.job != job->id()) {
    return refuse(ErrorCode::kCancelled,
                  "the node now serves another job: " + describe(job->ranks(), job->start()));
  }
  if (hello.job != 0 && !same_client) {
    return refuse(
        ErrorCode::kCancelled,
        client_name(hello) +
            " was taken by another client while this one was away, so what this one would "
            "train on is trained: give each rank one process, and start all ranks again "
            "from the last saved state");
  }
  const bool same_job = ranks == job->ranks() && requested_start(hello, job) == job->start();
  if (!same_job) return JoinDecision::kNewJob;
  if (same_client) return JoinDecision::kJoin;
  if (!hello.has_start) {
    return job->queue().inside_step() && has_ended(*job, hello.rank)
               ? JoinDecision::kJoinOrRepeatStep
               : JoinDecision::kJoin;
  }
  return job->queue().begun(hello.rank) ? JoinDecision::kBeginAgain : JoinDecision::kJoin;
}

Refusal retry_later(const Hello& hello, const Job& job,
                    std::chrono::nanoseconds since_first_asked) {
  const StartPoint start = requested_start(hello, &job);
  const std::string asked = "rank " + std::to_string(hello.rank) + " asks for a job of " +
                            describe(hello.world_size > 0 ? hello.world_size : job.ranks(), start);
  const std::string present = describe(job.ranks(), job.start());
  if (since_first_asked > kDisconnectDelay && !job.queue().acknowledged_any()) {
    return {ErrorCode::kInvalidArgument,
            asked + ", but other ranks have joined one of " + present +
                ": start all ranks with the same world size and the same saved state"};
  }
  return {ErrorCode::kUnavailable, asked + ", but clients of a job of " + present +
                                       " are still connected: the new job begins after they leave"};
}

Result<Job> new_job(const Hello& hello, const Job* previous, const JoinRequirements& requirements,
                    MonotonicTime now, std::shared_ptr<const JobOrder> order) {
  const std::uint64_t id = previous == nullptr ? 1 : previous->id() + 1;
  const std::int32_t ranks = requested_ranks(hello, requirements, previous);
  if (requirements.layout == 0) {
    NodeOptions asked = requirements.options;
    asked.plan.ranks = ranks;
    ISOCOST_TRY(asked.validate());
  }
  StartPoint start = requested_start(hello, nullptr);
  if (order != nullptr) start.mixture = order->saved;
  std::shared_ptr<const std::string> state;
  if (const std::string& given = hello.start.cost_model_state; !given.empty()) {
    state = std::make_shared<const std::string>(given);
  }
  return Job(id, ranks, start, now, std::move(order), std::move(state));
}

}  // namespace isocost
