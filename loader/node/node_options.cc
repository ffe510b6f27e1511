#include "loader/node/node_options.h"

#include <algorithm>
#include <string>

#include "loader/metrics/endpoint.h"

namespace isocost {
namespace {

Status in_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(name) + " = " + std::to_string(value) +
                                                ": allowed are " + std::to_string(least) + " to " +
                                                std::to_string(most));
}

// Batches are composed for a number of ranks, so that has to be known before a job says it.
Status validate_lookahead(const NodeOptions& options) {
  if (options.lookahead == 1) return {};
  const std::string field = "lookahead = " + std::to_string(options.lookahead) + ": ";
  if (options.ranks == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 field + "batches are composed for a number of ranks: set ranks, too");
  }
  if (options.balance == BalancePolicy::kNone) {
    return Error(ErrorCode::kInvalidArgument,
                 field + "balance = none deals samples as they are drawn: use balance = isocost");
  }
  return {};
}

}  // namespace

Status NodeOptions::validate() const {
  constexpr std::int64_t kMany = 1'000'000'000;
  if (shards.empty()) {
    return Error(ErrorCode::kInvalidArgument, "shards: name the directory that holds the shards");
  }
  ISOCOST_TRY(in_range("ranks", ranks, 0, 100'000));
  ISOCOST_TRY(in_range("microbatches", microbatches, 1, 100'000));
  ISOCOST_TRY(in_range("global_batch", global_batch, 1, 10'000'000));
  const std::int64_t least = std::max<std::int64_t>(ranks, 1) * microbatches;
  if (global_batch < least) {
    return Error(ErrorCode::kInvalidArgument,
                 "global_batch = " + std::to_string(global_batch) + ": " + std::to_string(ranks) +
                     " ranks × " + std::to_string(microbatches) + " microbatches need at least " +
                     std::to_string(least));
  }
  if (microbatch_memory > 0 && balance == BalancePolicy::kNone) {
    return Error(ErrorCode::kInvalidArgument,
                 "microbatch_memory: balance = none deals samples in order and keeps no cap: use "
                 "balance = isocost");
  }
  ISOCOST_TRY(in_range("lookahead", lookahead, 1, 1000));
  ISOCOST_TRY(validate_lookahead(*this));
  ISOCOST_TRY(in_range("epochs", epochs, 0, kMany));
  ISOCOST_TRY(in_range("steps", steps, 0, kMany));
  ISOCOST_TRY(in_range("plan_ahead", plan_ahead, 1, 1000));
  ISOCOST_TRY(in_range("workers", workers, 0, 1024));
  ISOCOST_TRY(in_range("memory", memory, kMiB, std::int64_t{1} << 50));
  ISOCOST_TRY(in_range("microbatch_memory", microbatch_memory, 0, std::int64_t{1} << 50));
  ISOCOST_TRY(in_range("max_pixels", max_pixels, 1, std::int64_t{1} << 40));
  ISOCOST_TRY(in_range("timeout in ms", timeout.count(), 100, 86'400'000));
  if (!metrics.empty()) {
    ISOCOST_TRY_CONTEXT(parse_metrics_address(metrics), "metrics");
  }
  return recipe.validate();
}

}  // namespace isocost
