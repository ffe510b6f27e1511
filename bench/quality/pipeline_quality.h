#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/result.h"

namespace isocost {

/// Decisions in the pipeline simulator, by fixed counts and seeds: steps of each policy in several
/// pipelines (one with a straggler, one looking ahead), and the layouts that the search chooses,
/// scored on fresh batches beside the alike layout and the mean-shape rule. {case: {policy:
/// {"step_s", "idle_fraction", ..., "plans"}}}. Errors: those of load_mixture and of what is run.
Result<nlohmann::json> pipeline_quality(const std::filesystem::path& traces);

}  // namespace isocost
