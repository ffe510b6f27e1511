#pragma once

#include <optional>
#include <vector>

#include "balancer/partition/balance.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Returns each item's sum over the dimensions: its cost on a rank whose modules run one after
/// another.
std::vector<double> item_totals(const BalanceProblem& problem);

/// Returns the problem with ranks as bins: totals are the only dimension, a rank holds at least
/// `microbatches` items, and its caps are the sums of its microbatches' caps.
Partition rank_partition(const BalanceProblem& problem, const std::vector<double>& totals);

/// Plans for Objective::kSlowestRank: divides items over ranks by their totals, then each rank's
/// items over its microbatches. If a rank's items do not fit its microbatches' caps, divides items
/// over microbatches first and then assigns whole microbatches to ranks. Returns nothing if no
/// packing is found.
std::optional<Bins> plan_ranks(const BalanceProblem& problem, const BalanceOptions& options);

}  // namespace isocost
