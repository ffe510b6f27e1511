#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "loader/node/internal/delivery_queue.h"
#include "loader/node/node_options.h"
#include "transport/server.h"

namespace isocost {

/// A training job that a node serves: so many ranks, from a starting point on. A node serves one at
/// a time, and begins another when all clients of the last have gone and the next ones ask for
/// something else: a restart from a checkpoint, perhaps with another number of ranks.
/// Single-thread.
class Job {
 public:
  Job(std::uint64_t id, std::int32_t ranks, const StartPoint& start);

  std::uint64_t id() const { return id_; }
  std::int32_t ranks() const { return ranks_; }
  const StartPoint& start() const { return start_; }

  DeliveryQueue& queue() { return queue_; }
  const DeliveryQueue& queue() const { return queue_; }

  void join(const ClientJoined& joined);
  void leave(std::int32_t rank);
  /// Of the client that holds the rank now; 0 where nobody ever did.
  std::uint64_t session(std::int32_t rank) const { return at(rank).session; }
  bool seen(std::int32_t rank) const { return at(rank).seen; }
  /// Every rank has joined once, or was told of a failure.
  bool all_seen() const;
  bool all_gone() const;
  /// Ranks that a client holds now.
  std::int64_t present() const;
  /// When somebody first asked for another job while this one's clients were alive.
  std::chrono::steady_clock::time_point disputed_since(std::chrono::steady_clock::time_point now);

 private:
  struct Rank {
    bool present = false;
    bool seen = false;
    std::uint64_t session = 0;
  };
  const Rank& at(std::int32_t rank) const { return state_.at(static_cast<std::size_t>(rank)); }
  Rank& at(std::int32_t rank) { return state_.at(static_cast<std::size_t>(rank)); }

  std::uint64_t id_;
  std::int32_t ranks_;
  StartPoint start_;
  DeliveryQueue queue_;
  std::vector<Rank> state_;
  std::optional<std::chrono::steady_clock::time_point> disputed_since_;
};

/// What a node offers to jobs.
struct JobOffer {
  const NodeOptions& options;
  std::int64_t receivers = 0;  ///< Ranks, or receivers of a layout; 0: as many as the clients say.
  std::uint64_t layout = 0;    ///< Its fingerprint; 0: none.
  bool staged = false;         ///< It has stages, which receive unlike things.
  std::uint64_t cursor = 0;    ///< See StartPoint.
};

enum class JoinDecision : std::uint8_t {
  kJoin,        ///< It belongs to the job.
  kNewJob,      ///< It asks for another one, which may begin once no other client is alive.
  kBeginAgain,  ///< The same, but from the start of the very job in which its rank was served.
};

/// Whether a client that says hello belongs to `job` (null: there is none yet). Pure.
tl::expected<JoinDecision, Refusal> evaluate_join(const Hello& hello, bool same_client,
                                                  const Job* job, const JobOffer& offer);

/// Whether a client asks to begin at a step that there is: `steps` of its epoch, `epochs` in all
/// (0: without end). The end of an epoch is a beginning, too, and that of the last one.
std::optional<Refusal> check_start(const Hello& hello, std::uint64_t epochs, std::uint64_t steps);

/// What a client hears that asks for another job while clients of this one are alive: to ask again.
/// Where none of them has trained on anything in all the time since the first one asked, they are
/// not the rest of an old job: the ranks disagree, and waiting would not help.
Refusal retry_later(const Hello& hello, const Job& job, std::chrono::nanoseconds since_first_asked);

/// Ranks and start of the job that a client asks for. Errors: what NodeOptions::validate says of
/// that many ranks.
Result<Job> new_job(const Hello& hello, std::uint64_t id, const JobOffer& offer);

}  // namespace isocost
