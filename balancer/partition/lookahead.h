#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/result.h"

namespace isocost {

/// How the samples of a window of global batches are shared out over them.
struct Composition {
  /// batches[b] lists the window's items in ascending order; sizes are those of the window.
  std::vector<std::vector<std::uint32_t>> batches;
  std::size_t moved = 0;      ///< Items that left their own batch.
  double seconds_before = 0;  ///< Sum of the batches' lower bounds as they were drawn,
  double seconds_after = 0;   ///< and as they are composed.
};

/// Composes W consecutive global batches anew, so that dominant samples meet light company: where
/// dominant samples gate steps they come together in few batches, and work is spread evenly over
/// the others.
///
/// `window` holds the items of all W batches in their order, and the ranks, microbatches, slowdowns
/// and cap with which each batch will be balanced; `batch_sizes` [W] says how many belong to each.
/// No item leaves the window, so none moves further than W - 1 batches, and none moves at all with
/// W = 1 or where nothing is gained. This gives up the promise that a global batch is what was
/// drawn, which is why it is opt-in. Under a cap on bytes no batch gets fuller than the fullest
/// was, or than four fifths of what its bins may hold.
///
/// Pure, deterministic, one thread; O(W·N log N) for N items. Errors: kInvalidArgument for sizes
/// that do not add up, a batch with fewer items than bins, or what balance() refuses.
Result<Composition> compose_batches(const BalanceProblem& window,
                                    const std::vector<std::size_t>& batch_sizes);

}  // namespace isocost
