#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "base/result.h"

namespace isocost {

/// A job's layout beside the best one that a search finds for the same GPUs, on the same batches.
struct LayoutComparison {
  LayoutScore present;
  LayoutScore best;

  /// Returns by which part steps are faster with the best layout; 0 if the present one is as fast.
  double gain() const;
};

/// Returns the bytes of a GPU from which activation_caps() made a layout's caps, to a MiB. Nothing
/// if the layout has no caps.
std::optional<std::int64_t> gpu_memory_of(const Layout& layout, const RankMemory& state,
                                          double usable);

/// Returns the options of a search for layouts that train the modules as `present` does, and that
/// the same framework runs: one that `isocost plan --emit` could have chosen is compared with
/// others of the kind. A module that the layout freezes, and of which the profile has a backward
/// pass, was thawed and is trained whole. The search tries no more recomputation than the layout
/// has, and shards weights only if the layout does. It takes a fraction of the evaluations of
/// `isocost plan`.
LayoutSearchOptions search_like(const JobModel& job, const Layout& present);

/// Scores a layout on batches that are priced by the profile, and searches for a better one. Blocks
/// until the search ends. Errors: those of score_layout() and search_layouts().
Result<LayoutComparison> compare_with_best(const JobModel& job, const Layout& present,
                                           std::span<const std::vector<SampleCost>> batches,
                                           const LayoutSearchContext& context);

}  // namespace isocost
