#include "loader/node/internal/admission.h"

#include <algorithm>
#include <string>

namespace isocost {
namespace {

// In which the connections of killed processes are found to be closed.
constexpr std::chrono::seconds kDepartures{2};

std::string words(std::int32_t ranks, const StartPoint& start) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + " from epoch " +
         std::to_string(start.epoch) + ", step " + std::to_string(start.step);
}

// Without a number, a client is content with the job's; without a job, it is alone.
std::int32_t ranks_asked(const Hello& hello, const JobOffer& offer, const Job* job) {
  if (offer.receivers > 0) return static_cast<std::int32_t>(offer.receivers);
  if (hello.world_size > 0) return hello.world_size;
  return job == nullptr ? 1 : job->ranks();
}

StartPoint start_asked(const Hello& hello, const Job* job) {
  if (hello.has_start) return {0, hello.start.epoch, hello.start.step, {}};
  return job == nullptr ? StartPoint{} : job->start();
}

// A trainer with another layout would compute on what is meant for another stage.
std::optional<Refusal> check_layout(const Hello& hello, const JobOffer& offer) {
  if (hello.layout == offer.layout || (hello.layout == 0 && !offer.staged)) return std::nullopt;
  const std::string rank = "rank " + std::to_string(hello.rank);
  if (offer.layout == 0) {
    return Refusal{ErrorCode::kInvalidArgument,
                   rank + " has a layout, the node none: start the node with the same layout"};
  }
  return Refusal{ErrorCode::kInvalidArgument,
                 rank +
                     (hello.layout == 0 ? " has no layout, the node one ("
                                        : " has another layout than the node (") +
                     offer.options.plan.layout.string() + "): start both with the same file"};
}

tl::unexpected<Refusal> refuse(ErrorCode code, std::string reason) {
  return tl::unexpected(Refusal{code, std::move(reason)});
}

}  // namespace

Job::Job(std::uint64_t id, std::int32_t ranks, const StartPoint& start)
    : id_(id),
      ranks_(ranks),
      start_(start),
      queue_(ranks),
      state_(static_cast<std::size_t>(ranks)) {}

void Job::join(const ClientJoined& joined) {
  if (joined.rank < 0 || joined.rank >= ranks_) return;
  queue_.join(joined.rank, joined.received);
  at(joined.rank) = {true, true, joined.session};
}

void Job::leave(std::int32_t rank) {
  if (rank < 0 || rank >= ranks_) return;  // of the job before, or never let in
  queue_.leave(rank);
  at(rank).present = false;
  at(rank).seen = true;
}

bool Job::all_seen() const {
  return std::all_of(state_.begin(), state_.end(), [](const Rank& rank) { return rank.seen; });
}

bool Job::all_gone() const {
  return std::none_of(state_.begin(), state_.end(), [](const Rank& rank) { return rank.present; });
}

std::int64_t Job::present() const {
  return std::count_if(state_.begin(), state_.end(), [](const Rank& rank) { return rank.present; });
}

std::chrono::steady_clock::time_point Job::disputed_since(
    std::chrono::steady_clock::time_point now) {
  if (!disputed_since_) disputed_since_ = now;
  return *disputed_since_;
}

tl::expected<JoinDecision, Refusal> evaluate_join(const Hello& hello, bool same_client,
                                                  const Job* job, const JobOffer& offer) {
  if (auto refusal = check_layout(hello, offer)) return tl::unexpected(*std::move(refusal));
  const std::int32_t ranks = ranks_asked(hello, offer, job);
  if (auto refusal = check_rank(hello, ranks)) return tl::unexpected(*std::move(refusal));
  const std::string rank = "rank " + std::to_string(hello.rank);
  if (hello.has_start && hello.start.cursor != 0 && hello.start.cursor != offer.cursor) {
    std::string reason =
        " resumes a state of other data or another order: give the node the shards, seed, shuffle, "
        "global_batch_size, tail and lookahead that it was saved with";
    if (offer.options.plan.lookahead > 1) {
      reason +=
          ", and within a window of the lookahead the ranks, microbatches, microbatch_memory, "
          "steps, profile and recipe, too";
    }
    return refuse(ErrorCode::kInvalidArgument, rank + reason);
  }
  if (job == nullptr) return JoinDecision::kNewJob;
  if (hello.job != 0 && hello.job != job->id()) {
    return refuse(ErrorCode::kCancelled,
                  "the node serves another job since: " + words(job->ranks(), job->start()));
  }
  const bool continues = hello.job != 0 || same_client;
  const bool alike = ranks == job->ranks() && start_asked(hello, job) == job->start();
  if (!alike) return JoinDecision::kNewJob;
  const bool fresh = continues || !hello.has_start || !job->queue().begun(hello.rank);
  return fresh ? JoinDecision::kJoin : JoinDecision::kBeginAgain;
}

std::optional<Refusal> check_start(const Hello& hello, std::uint64_t epochs, std::uint64_t steps) {
  if (!hello.has_start) return std::nullopt;
  const bool after_the_last = epochs > 0 && hello.start.epoch >= epochs;
  const bool possible = after_the_last ? hello.start.epoch == epochs && hello.start.step == 0
                                       : hello.start.step <= steps;
  if (possible) return std::nullopt;
  return Refusal{ErrorCode::kInvalidArgument,
                 "there is no epoch " + std::to_string(hello.start.epoch) + ", step " +
                     std::to_string(hello.start.step) + " to start from: the node has " +
                     (epochs == 0 ? "endless" : std::to_string(epochs)) + " epochs of " +
                     std::to_string(steps) + " steps"};
}

Refusal retry_later(const Hello& hello, const Job& job,
                    std::chrono::nanoseconds since_first_asked) {
  const StartPoint start = start_asked(hello, &job);
  const std::string asked = "rank " + std::to_string(hello.rank) + " asks for a job of " +
                            words(hello.world_size > 0 ? hello.world_size : job.ranks(), start);
  const std::string there = words(job.ranks(), job.start());
  if (since_first_asked > kDepartures && !job.queue().acknowledged_any()) {
    return {ErrorCode::kInvalidArgument,
            asked + ", others have joined one of " + there +
                ": start all ranks with the same world size and the same saved state"};
  }
  return {ErrorCode::kUnavailable, asked + ", while clients of one of " + there +
                                       " are still connected: it begins when they have gone"};
}

Result<Job> new_job(const Hello& hello, std::uint64_t id, const JobOffer& offer) {
  const std::int32_t receivers = ranks_asked(hello, offer, nullptr);
  if (offer.layout == 0) {
    NodeOptions asked = offer.options;
    asked.plan.ranks = receivers;
    ISOCOST_TRY(asked.validate());
  }
  return Job(id, receivers, start_asked(hello, nullptr));
}

}  // namespace isocost
