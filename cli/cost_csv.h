#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Numbers read from CSV: the cost matrices of `isocost balance`, the traces of the simulator.
struct CostCsv {
  std::vector<std::string> names;  ///< Of the columns; empty where the text has no header.
  std::size_t columns = 0;
  std::vector<double> values;  ///< [rows × columns] row-major, finite and >= 0.

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

struct CostCsvOptions {
  /// Only these columns of the header are read, in this order; others may hold anything. Empty: all
  /// columns, and a header may be absent.
  std::vector<std::string> wanted = {};
  std::size_t max_rows = std::size_t{1} << 24;
  std::size_t max_columns = 1024;
};

/// Parses comma-separated numbers: a line a row; blank lines and lines that start with '#' are
/// skipped, CRLF and a byte order mark are understood, spaces around fields are ignored, a field
/// may stand in double quotes, and what is too small for a double is 0. The first line is a header
/// where none of its fields is a number. Pure. Errors: kCorrupt naming line and column (no number,
/// negative, NaN, infinite, another count of fields than above, quotes that do not close),
/// kNotFound for a wanted column that is not there, kResourceExhausted beyond the limits.
Result<CostCsv> parse_cost_csv(std::string_view text, const CostCsvOptions& options);

}  // namespace isocost
