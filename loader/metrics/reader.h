#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// One line of Prometheus's text format.
struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  ///< In their order, unescaped.
  double value = 0;                                         ///< NaN and infinities may come, too.

  /// Empty where there is no such label.
  std::string_view label(std::string_view wanted) const;
};

/// Reads the text that `prometheus_text` writes, or any of its format (version 0.0.4): comments and
/// timestamps are skipped. Takes any bytes, in time and memory linear in them. Errors: kCorrupt
/// naming the line.
Result<std::vector<MetricSample>> parse_prometheus_text(std::string_view text);

}  // namespace isocost
