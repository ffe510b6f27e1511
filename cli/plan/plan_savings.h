#pragma once

#include <cstdint>
#include <optional>

#include "balancer/layout/layout_search.h"
#include "base/result.h"
#include "cli/trace/sampled_batches.h"
#include "cli/trace/trace_csv.h"
#include "loader/report/savings.h"

namespace isocost::cli {

/// Returns what balancing saves in the layout of this score: the same batches, divided in order and
/// by tokens, beside the score. Errors: those of score_layout.
Result<Savings> savings_of(const JobModel& job, const LayoutScore& best,
                           const SampledBatches& batches, const LayoutSearchOptions& options,
                           std::optional<double> price_per_gpu_hour);

/// Returns what the loader needs at the score's step; nothing if the samples' bytes are not known.
std::optional<LoaderNeeds> needs_of(const TraceMix& mix, const LayoutScore& best,
                                    std::int64_t global_batch_size);

}  // namespace isocost::cli
