#include "loader/plan/plan_options.h"

#include <algorithm>
#include <string>

#include "base/counted.h"
#include "base/range.h"
#include "transport/wire.h"

namespace isocost {
namespace {

// Batches are composed for a number of ranks, which must be known before the first job.
Status validate_lookahead(const PlanOptions& options) {
  if (options.lookahead == 1) return {};
  const std::string field = "lookahead = " + std::to_string(options.lookahead) + ": ";
  if (options.ranks == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 field + "batches are composed for a number of ranks; set ranks as well");
  }
  if (options.balance != BalancePolicy::kCost) {
    return Error(ErrorCode::kInvalidArgument,
                 field + "only balance = cost composes several global batches together");
  }
  return {};
}

}  // namespace

Status PlanOptions::validate() const {
  constexpr std::int64_t kMany = 1'000'000'000;
  ISOCOST_TRY(check_range("ranks", ranks, 0, 100'000));
  ISOCOST_TRY(check_range("microbatches", microbatches, 1, 100'000));
  ISOCOST_TRY(check_range("global_batch_size", global_batch_size, 1, 10'000'000));
  const std::int64_t least = std::max<std::int64_t>(ranks, 1) * microbatches;
  if (global_batch_size < least) {
    return Error(ErrorCode::kInvalidArgument,
                 "global_batch_size = " + std::to_string(global_batch_size) + ": " +
                     counted(ranks, "rank") + " × " + counted(microbatches, "microbatch") +
                     " need at least " + std::to_string(least));
  }
  // A plan may put several times the mean into one microbatch, if its samples are small.
  constexpr std::int64_t kMost = std::int64_t{kMaxSamples} / 4;
  if (global_batch_size > kMost * least) {
    return Error(ErrorCode::kInvalidArgument,
                 "global_batch_size = " + std::to_string(global_batch_size) + ": " +
                     counted(std::max<std::int64_t>(ranks, 1), "rank") + " × " +
                     counted(microbatches, "microbatch") + " take at most " +
                     std::to_string(kMost * least) + ": give ranks, or more microbatches");
  }
  if (microbatch_memory > 0 && balance != BalancePolicy::kCost) {
    return Error(ErrorCode::kInvalidArgument,
                 "microbatch_memory: only balance = cost keeps a cap on a microbatch's bytes");
  }
  ISOCOST_TRY(check_range("lookahead", lookahead, 1, 1000));
  ISOCOST_TRY(validate_lookahead(*this));
  ISOCOST_TRY(check_range("epochs", epochs, 0, kMany));
  ISOCOST_TRY(check_range("steps", steps, 0, kMany));
  return check_range("microbatch_memory", microbatch_memory, 0, std::int64_t{1} << 50);
}

}  // namespace isocost
