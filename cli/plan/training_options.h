#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "base/result.h"
#include "costmodel/profile.h"

namespace isocost::cli {

/// Options of `isocost plan` that say how the modules are trained.
struct TrainingOptions {
  std::vector<std::string> frozen;    ///< Modules: "encoder", "llm".
  std::vector<std::string> adapters;  ///< "encoder=8", "llm=16".
  std::string recompute = "none";
  bool replicated_optimizer = false;
  bool shard_weights = false;

  void add_to(CLI::App& command);
  /// Checks that the profile has seconds of the modules that the flags name. Errors:
  /// kInvalidArgument naming the flag, and how to measure the module.
  Status check_measured(const CostProfile& profile) const;
  /// Sets what a search assumes. Errors: kInvalidArgument naming the option.
  Status apply(LayoutSearchOptions& search) const;
};

}  // namespace isocost::cli
