#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "loader/node/internal/job.h"
#include "loader/node/node_options.h"
#include "transport/protocol/join_request.h"

namespace isocost {

/// Requirements of a node for clients that join it.
struct JoinRequirements {
  const NodeOptions& options;
  std::int64_t receivers =
      0;  ///< Ranks, or receivers of a layout; 0: as many as the first client names.
  std::uint64_t layout = 0;  ///< Fingerprint of the layout; 0: no layout.
  bool staged =
      false;  ///< Whether the layout has pipeline stages, which receive different tensors.
  std::uint64_t cursor = 0;  ///< Fingerprint of the order of samples: see StartPoint.
};

enum class JoinDecision : std::uint8_t {
  kJoin,  ///< The client belongs to the job.
  /// The client belongs to the job, and is a new one without a start. If no other client is
  /// connected, it is a new run, and the step that the last run has begun is begun again.
  kJoinOrRepeatStep,
  kNewJob,  ///< The client asks for another job, which may begin when no other client is connected.
  kBeginAgain,  ///< The client asks for the start of this job, where its rank was already served.
  kAnswer,      ///< The client has no rank, and asks only for the welcome.
};

/// Decides whether a client that says hello belongs to `job` (null: there is none yet). Pure.
/// Errors: a refusal that says how node and client differ.
tl::expected<JoinDecision, Refusal> evaluate_join(const Hello& hello, bool same_client,
                                                  const Job* job,
                                                  const JoinRequirements& requirements);

/// Returns the number of ranks that the client asks for. A client that names none accepts those of
/// `job`; without a job (null) it is the only rank, which evaluate_join lets no client be that has
/// not said so.
std::int32_t requested_ranks(const Hello& hello, const JoinRequirements& requirements,
                             const Job* job);

/// Returns the refusal for a client that asks for another job while clients of this one are
/// connected: the client is to ask again later. If no client has trained on anything since
/// the first such request, the ranks disagree about the job, waiting would not help, and the
/// refusal is final.
Refusal retry_later(const Hello& hello, const Job& job, std::chrono::nanoseconds since_first_asked);

/// Returns the job that a client asks for, after `previous` (null: it is the first), with the
/// samples of `order`. Errors: those of NodeOptions::validate for that many ranks.
Result<Job> new_job(const Hello& hello, const Job* previous, const JoinRequirements& requirements,
                    MonotonicTime now, std::shared_ptr<const JobOrder> order = nullptr);

}  // namespace isocost
