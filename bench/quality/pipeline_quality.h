#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/result.h"

namespace isocost {

/// Runs the pipeline cases with fixed counts and seeds: simulated steps of each policy in several
/// pipelines (one with a straggler, one with look-ahead), and the layouts that the search, the best
/// layout of equal degrees and the mean-shape rule choose, scored on fresh batches. Returns {case:
/// {policy: {"makespan", "idle_fraction", ..., "plans"}}}. Errors: those of load_mixture and of the
/// planners.
Result<nlohmann::json> pipeline_quality(const std::filesystem::path& traces);

}  // namespace isocost
