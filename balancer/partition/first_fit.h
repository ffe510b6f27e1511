#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "balancer/partition/balance.h"

namespace isocost {

/// Returns the number of bins that first-fit packing needs: items, from the largest to the smallest
/// relative to the caps, go to the first bin that has room. This is at least as many as any
/// division under the caps needs, and seldom more. Costs do not matter. Items that exceed a cap
/// alone have a bin each. Pure; O(items × bins).
std::size_t bins_by_first_fit(const BalanceProblem& problem, std::span<const std::uint32_t> items);

}  // namespace isocost
