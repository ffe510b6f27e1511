#include "transport/protocol/internal/prefetch_credit.h"

#include <algorithm>

#include "transport/wire/wire.h"

namespace isocost {

std::uint32_t prefetch_limit(const RankOptions& options) {
  return std::clamp<std::uint32_t>(options.prefetch, 1, kMaxCredit);
}

PrefetchCredit::PrefetchCredit(const RankOptions& options)
    : limit_(options.rank == kNoRank ? 0 : prefetch_limit(options)) {}

void PrefetchCredit::begin_session(std::uint64_t session) {
  session_ = session;
  granted_ = 0;
}

void PrefetchCredit::end_session() { session_.reset(); }

// Nothing is counted of a microbatch for which this session granted no credit.
void PrefetchCredit::spend() {
  if (granted_ > 0) granted_ -= 1;
}

std::optional<Credit> PrefetchCredit::top_up(std::uint32_t ready) {
  const std::uint32_t covered = granted_ + ready;
  if (!session_ || covered >= limit_) return std::nullopt;
  const std::uint32_t more = limit_ - covered;
  granted_ += more;
  return Credit{more, *session_};
}

}  // namespace isocost
