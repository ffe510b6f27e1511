#pragma once

#include <cstdint>

#include "balancer/partition/internal/exact.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Depth-first branch and bound over who lies where: bytes are compared as the integers they are
/// and makespans as makespan_of sums them, so that no tolerance decides. Looks at no more than
/// `nodes` placements of an item, and at none where there are more than 64 items. limits.nodes is
/// not used.
ExactAnswer enumerate_bins(const Partition& problem, const ExactLimits& limits, std::int64_t nodes);

}  // namespace isocost
