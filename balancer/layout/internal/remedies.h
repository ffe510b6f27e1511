#pragma once

#include <string>

#include "balancer/layout/internal/layout_space.h"

namespace isocost {

/// Returns what would let a layout fit, as the end of a sentence: the flags of `isocost plan` with
/// which the enumeration finds layouts of the same samples that may fit the memory, each alone, or
/// two together if none does alone. Names other ways if there are no such flags. Blocks for as long
/// as a few enumerations, and tries fewer once the stop token of `context` requests it.
std::string what_fits(const JobModel& job, const BatchSummary& batch,
                      const LayoutSearchOptions& options, const LayoutSearchContext& context);

}  // namespace isocost
