#pragma once

#include <cstdint>
#include <limits>

#include "balancer/partition/internal/partition.h"

namespace isocost {

struct ImproveLimits {
  double target = 0;      ///< The search stops at a makespan <= this: the lower bound.
  double enough = 0;      ///< At a makespan <= this, at most `polish` work is left.
  std::int64_t work = 0;  ///< Budget: pairs of bins evaluated.
  /// Budget for the last step, from `enough` to a bound that can probably be met.
  std::int64_t polish = 0;
  /// The search stops if this many pairs close less than 1/32 of the distance to the target.
  std::int64_t stall_window = std::numeric_limits<std::int64_t>::max();
  bool even_out = false;  ///< Whether even_out (tile_search.h) runs first.
};

/// Returns limits from options: `enough` is `enough_gap` above the bound, and `polish` is 1/48 of
/// the work. Beyond 512 bins the work no longer grows. The stall window of long searches grows with
/// the cube of the mean number of items in a bin.
ImproveLimits improve_limits(double bound, double enough_gap, std::int64_t rounds,
                             const Partition& problem);

/// Improves `bins` by local search. The most loaded bin and a partner redistribute their items
/// optimally, which covers every move, swap and longer exchange between the two. If no partner
/// helps, other pairs swap items below the makespan at random, and the most loaded bin tries them
/// again. The makespan never rises. `bins` must be feasible and stays feasible.
void improve_bins(const Partition& problem, const ImproveLimits& limits, Bins& bins);

}  // namespace isocost
