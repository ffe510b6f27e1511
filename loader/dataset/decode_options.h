#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/units.h"
#include "decode/probe.h"
#include "decode/recipe.h"

namespace isocost {

/// How shards are indexed and samples decoded, and the resources for it. See docs/config.md.
struct DecodeOptions {
  RecipeOptions recipe;
  std::int64_t max_pixels = ProbeLimits{}.max_pixels;  ///< Larger images and frames are bad.
  std::int64_t memory = 2 * kGiB;   ///< Budget of bytes for decoding and decoded samples.
  std::int64_t workers = 0;         ///< 0: one per core.
  std::filesystem::path index_dir;  ///< Empty: ".isocost" in the shards' directory.
  /// How long reads of shards may fail, while delivery is paused, before the job ends.
  std::chrono::milliseconds io_timeout{120'000};

  /// Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

}  // namespace isocost
