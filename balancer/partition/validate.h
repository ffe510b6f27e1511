#pragma once

#include "balancer/partition/balance.h"

namespace isocost {

/// Refuses what cannot be balanced: dimensions outside 1 to 8, costs that are negative, not finite
/// or too large to sum, fewer items than bins, slowdowns of another length or outside 0.01 to 100,
/// bytes of another length or negative.
Status validate(const BalanceProblem& problem);

/// Refuses an item above the cap, naming it.
Status check_cap(const BalanceProblem& problem);

/// The error where every item fits by itself and yet no packing under the cap was found.
Error no_packing(const BalanceProblem& problem);

}  // namespace isocost
