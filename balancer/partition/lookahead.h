#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/result.h"

namespace isocost {

/// The division of a window of samples into global batches.
struct Composition {
  /// batches[b] lists the window's items in ascending order. Batch sizes are those of the window.
  std::vector<std::vector<std::uint32_t>> batches;
  std::size_t moved = 0;      ///< Items that left their own batch.
  double seconds_before = 0;  ///< Sum of the lower bounds of the batches as drawn.
  double seconds_after = 0;   ///< Sum of the lower bounds of the batches as composed.
};

/// Redistributes the samples of W consecutive global batches over these batches, so that the sum of
/// their lower bounds falls: dominant samples are gathered in few batches, and the rest of the work
/// is spread evenly over the others.
///
/// `window` holds the items of all W batches in their order, and the ranks, microbatches, slowdowns
/// and caps with which each batch will be balanced. `batch_sizes` [W] gives the number of items of
/// each batch. No item leaves the window, so none moves further than W - 1 batches. Nothing moves
/// if W = 1 or if the sum does not fall. Composed batches are no longer the batches that were
/// drawn, so this is opt-in. Under caps, each composed batch fits into its bins by
/// bins_by_first_fit, and none becomes fuller in any resource than the fullest batch as drawn, or
/// than 80 % of what its bins may hold, whichever is more.
///
/// Pure, deterministic, runs on the calling thread; O(W·N log N) for N items, under caps also
/// O(N · bins). Errors:
/// kInvalidArgument if the sizes do not add up, if a batch has fewer items than bins, or if
/// balance() would refuse the window.
Result<Composition> compose_batches(const BalanceProblem& window,
                                    const std::vector<std::size_t>& batch_sizes);

}  // namespace isocost
