#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/random.h"
#include "base/result.h"
#include "loader/report/savings.h"

namespace isocost::cli {

/// Samples of one or more traces, drawn by weight.
struct TraceMix {
  std::vector<std::vector<Load>> traces;  ///< No trace is empty.
  std::vector<std::uint64_t> weights;     ///< One per trace; the sum is above zero.
  /// Mean bytes of a sample, and CPU seconds that a loader takes for it: known of data sets alone,
  /// and the seconds only if they were measured.
  std::optional<SampleBytes> bytes = {};
  std::optional<double> loader_s_per_sample = {};

  /// Draws `count` samples with replacement: first a trace by its weight, then any of its rows.
  std::vector<Load> draw(std::size_t count, Random& random) const;
};

/// Parses a trace: CSV (see cost_csv.h) whose header has the columns `encoder_patches` and
/// `llm_tokens`, with one sample per row; other columns are ignored. At most 10 million rows.
/// Errors: those of parse_cost_csv; kCorrupt naming the row if a count is fractional or above 10^9,
/// or both are zero.
Result<std::vector<Load>> parse_trace(std::string_view text);

/// Reads the traces `files`, FILE[,FILE...], of at most 256 MiB each. `weights` is W[,W...], whole
/// numbers up to a million, or empty for equal weights. Errors: those of parse_trace with the
/// file's name; kNotFound; kInvalidArgument for an empty file name and for weights that do not fit.
Result<TraceMix> read_traces(std::string_view files, std::string_view weights);

/// Splits a list at its commas and removes the blanks around its parts. Keeps empty parts.
std::vector<std::string> split_list(std::string_view text);

}  // namespace isocost::cli
