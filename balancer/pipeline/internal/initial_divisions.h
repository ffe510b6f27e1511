#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"

namespace isocost {

/// Divides by vector LPT into bins of different size: takes `items` (indices into `costs`, [N × 2])
/// in descending order of their larger cost and puts each into the bin where the larger of load /
/// weight stays smallest. If `each` is above one, every bin receives exactly that many items (items
/// = each × bins); else every bin receives at least one. Bins list items in ascending order.
MicrobatchBins weighted_lpt(const std::vector<double>& costs, std::span<const std::uint32_t> items,
                            const std::vector<double>& weights, std::size_t each);

/// Divides each replica's samples again over its `microbatches` bins, so that the first and last
/// `ramp` bins are smaller: their sizes rise from `taper` times the size in the middle.
MicrobatchBins tapered_bins(const std::vector<double>& costs, const MicrobatchBins& bins,
                            std::size_t microbatches, std::size_t ramp, double taper);

/// Orders each replica's microbatches from small to large to small.
MicrobatchBins small_at_the_ends(const std::vector<double>& costs, const MicrobatchBins& bins,
                                 std::size_t microbatches);

}  // namespace isocost
