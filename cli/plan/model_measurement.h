#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/config/given_settings.h"

namespace isocost::cli {

/// Measures the model of --model, for a plan without --profile.
struct ModelMeasurement {
  std::string device;
  std::optional<double> budget_s;  ///< Default: 60.

  bool has_budget() const { return budget_s.has_value(); }
  void add_to(CLI::App& command);
  /// Checks, before other work, that there is a device to measure on. Errors: kInvalidArgument
  /// naming what to do if this machine has no GPU, and --device names nothing else.
  Status check(const std::string& model) const;
  /// Runs `isocost model profile` on the model of these settings, and writes its profile to `file`.
  /// The command prints to standard error. Blocks for about the budget. Errors: those of
  /// call_python; kUnavailable, with the command to try, if it fails; kCancelled.
  Status run(const GivenSettings& recipe, const std::filesystem::path& file,
             const std::stop_token& stop) const;
};

/// Returns the file of the measured profile, beside the layout: "layout_profile.json".
std::filesystem::path measured_profile(const std::filesystem::path& layout);

}  // namespace isocost::cli
