#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/random.h"
#include "base/result.h"

namespace isocost::cli {

/// Samples of traces, drawn by weight.
struct TraceMix {
  std::vector<std::vector<Load>> traces;  ///< None of them empty.
  std::vector<std::uint64_t> weights;     ///< As many, their sum above zero.

  /// `count` samples with replacement: a trace by weight, then any of its rows.
  std::vector<Load> draw(std::size_t count, Random& random) const;
};

/// Reads a trace: CSV (see number_table.h) whose header has the columns `encoder_patches` and
/// `llm_tokens`; others are ignored. At most 256 MiB and 10 million rows. Errors: those of
/// parse_cost_csv; kCorrupt naming the row for counts that are not whole, too large or both
/// zero.
Result<std::vector<Load>> parse_trace(std::string_view text);

/// `files` is FILE[,FILE…], `weights` W[,W…] of whole numbers or empty: equal. Errors: those of
/// parse_trace with the file's name; kNotFound; kInvalidArgument for weights that do not fit, and a
/// file without name.
Result<TraceMix> read_traces(std::string_view files, std::string_view weights);

/// Parts of a list with commas, empty ones included, blanks around them left out.
std::vector<std::string> split_list(std::string_view text);

}  // namespace isocost::cli
