#include "cli/plan/plan_savings.h"

#include <cstddef>

namespace isocost::cli {
namespace {

PolicyStep step_of(const LayoutScore& score) {
  return {.step_s = score.step_s, .idle_share = score.idle_fraction, .fits = score.fits};
}

}  // namespace

Result<Savings> savings_of(const JobModel& job, const LayoutScore& best,
                           const SampledBatches& batches, const LayoutSearchOptions& options,
                           std::optional<double> price_per_gpu_hour) {
  Savings savings{.policies = {},
                  .gpus = static_cast<std::int64_t>(options.gpus),
                  .price_per_gpu_hour = price_per_gpu_hour};
  const auto set = [&savings](BalancePolicy policy, const LayoutScore& score) {
    savings.policies.at(static_cast<std::size_t>(policy)) = step_of(score);
  };
  ISOCOST_ASSIGN(const LayoutScore in_order,
                 score_layout(job, best.layout, batches, options, 0, PipelinePolicy::kInOrder));
  ISOCOST_ASSIGN(const LayoutScore tokens,
                 score_layout(job, best.layout, batches, options, 0, PipelinePolicy::kTokens));
  set(BalancePolicy::kInOrder, in_order);
  set(BalancePolicy::kTokens, tokens);
  set(BalancePolicy::kCost, best);
  return savings;
}

std::optional<LoaderNeeds> needs_of(const TraceMix& mix, const LayoutScore& best,
                                    std::int64_t global_batch_size) {
  if (!mix.bytes) return std::nullopt;
  return loader_needs(*mix.bytes, global_batch_size, best.step_s, mix.loader_s_per_sample);
}

}  // namespace isocost::cli
