#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace isocost::cli {

/// Flags of commands that say what balancing saves, and what the loader needs.
struct SavingsFlags {
  static constexpr double kMeasuredSeconds = 8;

  std::string price;
  bool measure_decoding = false;

  void add_to(CLI::App& command);
  /// Returns the price of --price-per-gpu-hour; nothing if there is none. Errors: kInvalidArgument.
  Result<std::optional<double>> price_per_gpu_hour() const;
};

}  // namespace isocost::cli
