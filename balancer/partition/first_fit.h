#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "balancer/partition/balance.h"

namespace isocost {

/// Returns how many bins these items of a problem need where each, from the largest to the smallest
/// relative to the caps, goes to the first bin that has room for it: at least as many as any
/// division under the caps needs, and seldom more. Costs do not matter. Items that exceed a cap
/// alone have a bin each. Pure; O(items × bins).
std::size_t bins_by_first_fit(const BalanceProblem& problem, std::span<const std::uint32_t> items);

}  // namespace isocost
