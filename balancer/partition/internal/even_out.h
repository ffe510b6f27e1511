#pragma once

#include <cstdint>

#include "balancer/partition/internal/bin_states.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// Brings all bins below `target` together: lowers the sum of the squares of all that is above it,
/// over bins and dimensions, by dividing pairs anew; where no pair lowers it, a bin hands its
/// excess to another and descent goes on from there, taken back where it leads nowhere. For targets
/// that leave next to no slack (loads of whole tiles), where the largest load says nothing of
/// progress. `work` is pairs looked at. The makespan may rise while it runs and at the end is at
/// most what it was.
void even_out(const Partition& problem, double target, std::int64_t work, BinStates& bins);

}  // namespace isocost
