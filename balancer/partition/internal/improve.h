#pragma once

#include "balancer/partition/internal/partition.h"

namespace isocost {

struct ImproveLimits {
  double target = 0;        ///< Stops at a makespan <= this: the lower bound.
  double enough = 0;        ///< At a makespan <= this, `polish` is all the work left.
  std::int64_t work = 0;    ///< Pairs of bins looked at, so that one input gives one plan.
  std::int64_t polish = 0;  ///< For the last step onto a bound that may well be met.
  bool even_out = false;    ///< Bring all bins below the target together first.
};

/// Limits from options: `enough_gap` above the bound is near enough, a 48th of the work
/// polishes. Beyond 512 bins the work grows no more.
ImproveLimits improve_limits(double bound, double enough_gap, std::int64_t rounds,
                             std::size_t bins);

/// Local search. The worst bin and a partner divide their items anew, exactly (which covers every
/// move, swap and longer exchange between the two); where no partner helps, other pairs exchange
/// items below the makespan, and the worst bin tries them again. The makespan never rises. `bins`
/// is feasible and stays so.
void improve_bins(const Partition& problem, const ImproveLimits& limits, Bins& bins);

}  // namespace isocost
