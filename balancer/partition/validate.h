#pragma once

#include "balancer/partition/balance.h"

namespace isocost {

/// Checks that a problem is well formed. Errors: kInvalidArgument for dimensions outside 1 to 8,
/// costs that are negative, not finite or too large to sum, fewer items than bins, slowdowns of the
/// wrong length or outside 0.01 to 100, too many resources, and sizes of the wrong length or
/// negative.
Status validate(const BalanceProblem& problem);

/// Checks that every item fits the caps. Errors: kResourceExhausted naming the first item that does
/// not, and the resource.
Status check_caps(const BalanceProblem& problem);

/// Returns the error for a problem whose items each fit the caps, but for which no packing was
/// found.
Error no_packing(const BalanceProblem& problem);

}  // namespace isocost
