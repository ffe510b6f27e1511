#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"
#include "loader/node/decoding/load_hook.h"
#include "loader/node/decoding/step_sample.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// Returns a sample of this data set as a bad one.
BadSample bad_sample(const Dataset& dataset, SampleId id, std::string reason);

/// Finds what is known of a sample before it is decoded, and whether it is bad.
class SampleExaminer {
 public:
  struct Context {
    const Dataset* dataset;
    const Recipe* recipe;
    std::int64_t memory;             ///< Bytes that decoding may take.
    LoadHook load_hook;              ///< Empty: the recipe's loads are used.
    const ServedLayout* layout;      ///< Whose stages must hold each sample; null: none.
    const MicrobatchLimits* limits;  ///< Limits that every single sample must keep; null: none.
  };
  explicit SampleExaminer(Context context) : context_(std::move(context)) {}

  /// Fills in a sample that has its id, as far as it is good. Returns why it is bad, if it is.
  /// Errors: those of the load hook, and of Dataset::checked_shape and check_index.
  Result<std::optional<BadSample>> examine(StepSample& sample) const;

 private:
  std::optional<BadSample> check_shape(StepSample& sample, const SampleShape& shape) const;
  Status apply_hook(StepSample& sample) const;
  std::optional<BadSample> check_load(const StepSample& sample) const;

  const Context context_;
};

}  // namespace isocost
