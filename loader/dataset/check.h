#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"

namespace isocost {

struct CheckOptions {
  DatasetOptions dataset;  ///< Its progress is told of decoding, too.
  RecipeOptions recipe;
  std::int64_t memory = 2 * kGiB;  ///< As NodeOptions::memory: a sample may take half of it.
  std::size_t workers = 0;         ///< 0: one per core.
  std::stop_token stop;
};

struct CheckReport {
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;  ///< Good ones.
  std::uint64_t parts = 0;    ///< Of the good samples.
  std::uint64_t bytes = 0;    ///< Encoded, of all parts that were read.
  /// What indexing found, then what decoding found in the order of the samples; a sample with two
  /// bad parts comes twice.
  std::vector<BadSample> bad;
};

/// Reads everything: indexes the shards where that is due, then decodes every part as training
/// would. Blocks. Errors: those of Dataset::open and Recipe::create, kInvalidArgument (memory
/// under 1 MiB), kCancelled; what is bad is in the report.
Result<CheckReport> check_dataset(const std::filesystem::path& directory,
                                  const CheckOptions& options);

}  // namespace isocost
