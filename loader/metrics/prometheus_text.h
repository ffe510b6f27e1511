#pragma once

#include <string>
#include <vector>

#include "loader/metrics/snapshot.h"

namespace isocost {

/// Prometheus's text format, version 0.0.4: every family of `metric_table` in its order, with HELP
/// and TYPE. Values that are not known (an error before the first measurement) are left out, the
/// families stay.
std::string prometheus_text(const NodeMetrics& metrics);

/// A family of metrics, as its row in docs/metrics.md.
struct MetricFamilyInfo {
  std::string name;
  bool counter = false;             ///< Else a gauge.
  std::vector<std::string> labels;  ///< Of each of its series; empty: there is one.
  std::string help;
};
std::vector<MetricFamilyInfo> metric_families();
/// docs/metrics.md's table in Markdown.
std::string metric_table_markdown();

}  // namespace isocost
