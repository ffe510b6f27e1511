#pragma once

#include <optional>

#include "balancer/partition/balance.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Sum over the dimensions of each item: its share of a rank whose modules run one after another.
std::vector<double> item_totals(const BalanceProblem& problem);

/// The ranks as bins: totals as the one dimension, `microbatches` items at least, the caps of all
/// microbatches together.
Partition rank_partition(const BalanceProblem& problem, const std::vector<double>& totals);

/// Plans for Objective::kSlowestRank: items to ranks by their totals, then each rank's items to its
/// microbatches. Where a rank's items do not fit its microbatches' caps: items to microbatches
/// first, then whole microbatches to ranks. Nothing where no packing is found.
std::optional<Bins> plan_ranks(const BalanceProblem& problem, const BalanceOptions& options);

}  // namespace isocost
