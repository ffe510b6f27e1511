#pragma once

#include <cstdint>
#include <optional>

#include "transport/protocol/rank_options.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Returns how many microbatches may be ready or on their way to a rank: its setting `prefetch`,
/// at least one, and at most what a message can grant.
std::uint32_t prefetch_limit(const RankOptions& options);

/// Decides how many microbatches a node may send ahead. A node sends one for each credit, so credit
/// is granted until as many are ready or on their way as the limit says. Credit counts for one
/// session. A client without a rank receives nothing and grants none. Single-thread.
class PrefetchCredit {
 public:
  explicit PrefetchCredit(const RankOptions& options);

  /// Begins a session. The node has forgotten what was granted in the last one.
  void begin_session(std::uint64_t session);
  /// Grants nothing until the next session begins: the node would ignore it.
  void end_session();
  bool in_session() const { return session_.has_value(); }
  /// Counts a credit that the node has spent on a microbatch.
  void spend();
  /// Returns what is to be sent when `ready` microbatches wait for the training loop, and counts it
  /// as granted; nothing if the limit is reached.
  std::optional<Credit> top_up(std::uint32_t ready);

 private:
  const std::uint32_t limit_;  // 0: the client receives nothing
  std::optional<std::uint64_t> session_;
  std::uint32_t granted_ = 0;  // in this session, and not spent yet
};

}  // namespace isocost
