#include "loader/plan/plan_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "balancer/layout/layout.h"
#include "base/counted.h"
#include "base/range.h"
#include "loader/plan/microbatch_count.h"

namespace isocost {
namespace {

// Checks the options of look-ahead. Batches are composed for a number of ranks, which must be known
// before the first job.
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

Status validate_counts(const PlanOptions& options) {
  ISOCOST_TRY(check_range("ranks", options.ranks, 0, 100'000));
  ISOCOST_TRY(check_range("microbatches", options.microbatches, 0, 100'000));
  ISOCOST_TRY(check_range("global_batch_size", options.global_batch_size, 1, 10'000'000));
  const std::int64_t ranks = std::max<std::int64_t>(options.ranks, 1);
  const std::int64_t microbatches = std::max<std::int64_t>(fixed_microbatches(options), 1);
  const std::int64_t least = ranks * microbatches;
  const std::string field =
      "global_batch_size = " + std::to_string(options.global_batch_size) + ": ";
  if (options.global_batch_size < least) {
    return Error(ErrorCode::kInvalidArgument, field + counted(options.ranks, "rank") + " × " +
                                                  counted(microbatches, "microbatch") +
                                                  " need at least " + std::to_string(least) +
                                                  ": give a larger one, or fewer microbatches");
  }
  const bool chosen = fixed_microbatches(options) == 0;
  if (!chosen && options.global_batch_size > kMostMeanSamples * least) {
    return Error(ErrorCode::kInvalidArgument,
                 field + counted(ranks, "rank") + " × " + counted(microbatches, "microbatch") +
                     " take at most " + std::to_string(kMostMeanSamples * least) +
                     ": give ranks, or more microbatches");
  }
  return {};
}

}  // namespace

void PlanOptions::use_layout(std::shared_ptr<const Layout> given, std::filesystem::path file) {
  layout = std::move(given);
  layout_file = std::move(file);
  ranks = static_cast<std::int64_t>(layout->llm.data);
  microbatches = static_cast<std::int64_t>(layout->microbatches);
}

Status PlanOptions::read_layout() {
  if (layout != nullptr || layout_file.empty()) return {};
  ISOCOST_ASSIGN(Layout read, Layout::load(layout_file));
  layout = std::make_shared<const Layout>(std::move(read));
  return {};
}

Status PlanOptions::validate() const {
  constexpr std::int64_t kMany = 1'000'000'000;
  ISOCOST_TRY(validate_counts(*this));
  ISOCOST_TRY(MicrobatchLimits::validate(*this));
  ISOCOST_TRY(check_range("padded_multiple", padded_multiple, 1, 1 << 20));
  ISOCOST_TRY(check_range("shuffle_shards", shuffle_shards, 1, kMany));
  ISOCOST_TRY(check_range("lookahead", lookahead, 1, 1000));
  ISOCOST_TRY(validate_lookahead(*this));
  ISOCOST_TRY(check_range("epochs", epochs, 0, kMany));
  if (!(reprofile_budget > 0 && reprofile_budget <= 1)) {
    return Error(ErrorCode::kInvalidArgument,
                 "reprofile_budget = " + std::to_string(reprofile_budget) +
                     ": must be above 0 and at most 1 (0.005: measuring again takes at most 0.5 % "
                     "of training); reprofile = off measures nothing again");
  }
  return check_range("steps", steps, 0, kMany);
}

}  // namespace isocost
