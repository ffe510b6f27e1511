#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "base/load.h"
#include "base/result.h"
#include "cli/common/sample_parts.h"
#include "costmodel/cost_model.h"
#include "decode/recipe.h"
#include "loader/config/given_settings.h"
#include "loader/dataset/dataset.h"

namespace isocost::cli {

/// Flags that say what samples cost: --model with its settings, and --profile.
struct PriceFlags {
  GivenSettings recipe;
  std::string profile;

  void add_to(CLI::App& command);
};

/// A sample as a model sees it, and its predicted seconds.
struct SamplePrice {
  SampleExplanation explanation;
  ModuleSeconds seconds{};

  double total_s() const;
};

/// Prices the samples of a data set that was opened without a model. With a model it opens the data
/// set a second time, with the model's tokens. Single-thread.
class PricedSamples {
 public:
  /// `plain` must outlive it. Returns null if neither a model nor a profile is given. Errors: those
  /// of CostProfile::load, Recipe::create and Dataset::open.
  static Result<std::unique_ptr<PricedSamples>> open(const PriceFlags& flags,
                                                     const DataSources& data,
                                                     DatasetOptions options, const Dataset& plain);

  /// Returns the name of the model profile.
  const std::string& profile() const { return profile_; }
  /// Returns the price of a sample of the plain data set; ascending ids are found fast. Errors:
  /// those of explain_sample; kNotFound for a sample that has no tokens, with the reason.
  Result<SamplePrice> price(SampleId id);

 private:
  PricedSamples(const CostProfile& profile, Recipe recipe, const Dataset& plain)
      : profile_(profile.source),
        model_(profile, {.correct = false}),
        recipe_(std::move(recipe)),
        plain_(plain) {}
  Result<SampleId> tokenized(SampleId id);

  const std::string profile_;
  const CostModel model_;
  const Recipe recipe_;
  const Dataset& plain_;
  std::unique_ptr<Dataset> tokens_;  // null: no model is given
  SampleId next_ = 0;                // of `tokens_`: the one that likely comes next
};

}  // namespace isocost::cli
