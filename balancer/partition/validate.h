#pragma once

#include "balancer/partition/balance.h"

namespace isocost {

/// Checks that a problem is well formed. Errors: kInvalidArgument for dimensions outside 1 to 8,
/// costs that are negative, not finite or too large to sum, fewer items than bins, slowdowns of the
/// wrong length or outside 0.01 to 100, and bytes of the wrong length or negative.
Status validate(const BalanceProblem& problem);

/// Checks that every item fits the cap. Errors: kResourceExhausted naming the first item that does
/// not.
Status check_cap(const BalanceProblem& problem);

/// Returns the error for a problem whose items each fit the cap, but for which no packing was
/// found.
Error no_packing(const BalanceProblem& problem);

}  // namespace isocost
