#pragma once

#include <utility>

#include "transport/zmq/server.h"

namespace isocost {

/// Returns an admission that accepts ranks 0 to welcome.ranks - 1 of a job with that many ranks.
inline Admission admit_ranks(const Welcome& welcome) {
  return [welcome](const JoinRequest& request) -> tl::expected<Welcome, Refusal> {
    if (auto refusal = check_rank(request.hello, welcome.ranks)) {
      return tl::unexpected(*std::move(refusal));
    }
    return welcome;
  };
}

}  // namespace isocost
