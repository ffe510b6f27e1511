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

/// Reads a trace: CSV with a header line in which the columns `encoder_patches` and `llm_tokens`
/// stand; `modality` "audio" prices the first as audio positions; other columns are ignored. No
/// quoting. At most 256 MiB and 10 million rows. Errors: kCorrupt naming line and column.
Result<std::vector<Load>> parse_trace(std::string_view text);

/// `files` is FILE[,FILE…], `weights` W[,W…] of whole numbers or empty: equal. Errors: those of
/// parse_trace with the file's name; kNotFound; kInvalidArgument for weights that do not fit.
Result<TraceMix> read_traces(std::string_view files, std::string_view weights);

/// Parts of a list with commas, empty ones included.
std::vector<std::string> split_list(std::string_view text);

}  // namespace isocost::cli
