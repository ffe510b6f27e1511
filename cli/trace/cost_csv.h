#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost::cli {

/// A table of numbers read from CSV: the costs of `isocost-lab balance`, or a trace.
struct CostCsv {
  std::vector<std::string> names;  ///< Column names; empty if the text has no header.
  std::size_t columns = 0;
  std::vector<double> values;  ///< [rows × columns] row-major, finite and >= 0.

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

struct CostCsvOptions {
  /// The columns to read, in this order; others may hold anything. If empty, all columns are read,
  /// and the header is optional.
  std::vector<std::string> wanted = {};
  std::size_t max_rows = std::size_t{1} << 24;
  std::size_t max_columns = 1024;
};

/// Parses comma-separated numbers, one row per line. Blank lines and lines that start with '#' are
/// skipped. CRLF, a byte order mark, spaces around fields and double quotes are accepted. A number
/// too small for a double is read as 0. The first line is a header if none of its fields is a
/// number. Pure. Errors: kCorrupt naming line and column for a field that is not a number,
/// negative, NaN or infinite, for a line with another number of fields, and for quotes that do not
/// close; kNotFound for a wanted column that is missing; kResourceExhausted beyond the limits.
Result<CostCsv> parse_cost_csv(std::string_view text, const CostCsvOptions& options);

}  // namespace isocost::cli
