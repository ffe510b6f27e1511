#pragma once

#include <cstdint>

#include "balancer/partition/internal/exact.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Solves by depth-first branch and bound over the assignment of items to bins. Sizes are compared
/// as integers and makespans are summed as makespan_of does, so no tolerance affects the answer.
/// Evaluates at most `nodes` placements of an item, and none if there are more than 64 items.
/// Ignores limits.nodes.
ExactAnswer enumerate_bins(const Partition& problem, const ExactLimits& limits, std::int64_t nodes);

}  // namespace isocost
