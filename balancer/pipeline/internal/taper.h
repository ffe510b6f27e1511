#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"

namespace isocost {

/// Vector LPT into bins that may be of different size: `items` (indices into `costs`, [N × 2]) in
/// descending order of their larger cost, each into the bin where it leaves the larger of
/// load / weight smallest. With `each` above one every bin takes exactly that many
/// (items = each × bins), else at least one. Bins list items in ascending order.
MicrobatchBins weighted_greedy(const std::vector<double>& costs,
                               std::span<const std::uint32_t> items,
                               const std::vector<double>& weights, std::size_t each);

/// The same samples divided anew among the same replicas (runs of `microbatches` bins), bins of the
/// first and last `ramp` places smaller: from `taper` times the middle's size upwards.
MicrobatchBins tapered_bins(const std::vector<double>& costs, const MicrobatchBins& bins,
                            std::size_t microbatches, std::size_t ramp, double taper);

/// Each replica's microbatches from small to large to small.
MicrobatchBins small_at_the_ends(const std::vector<double>& costs, const MicrobatchBins& bins,
                                 std::size_t microbatches);

}  // namespace isocost
