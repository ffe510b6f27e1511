#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/load.h"
#include "cli/trace/trace_csv.h"
#include "costmodel/profile.h"
#include "costmodel/sample_cost.h"

namespace isocost::cli {

/// Global batches of samples in the seconds of a model profile.
using SampledBatches = std::vector<std::vector<SampleCost>>;

/// Draws `count` global batches of `size` samples each. Equal arguments give equal batches.
SampledBatches draw_batches(const TraceMix& mix, const CostProfile& profile, std::size_t count,
                            std::size_t size, std::uint64_t seed);

std::vector<SampleCost> costs_of(std::span<const Load> loads, const CostProfile& profile);

}  // namespace isocost::cli
