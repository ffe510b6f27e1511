#pragma once

#include <string>
#include <vector>

#include "loader/metrics/snapshot.h"

namespace isocost {

/// The page /metrics: every family of `metric_families`, in that order, with HELP and TYPE, in
/// Prometheus's text format 0.0.4. Values that are not known (a prediction error before the first
/// measurement) are left out; their families stay.
std::string prometheus_text(const NodeMetrics& metrics);

/// A family of metrics: one row of the table in docs/metrics.md.
struct MetricFamilyInfo {
  std::string name;
  bool counter = false;             ///< Otherwise a gauge.
  std::vector<std::string> labels;  ///< Of each series; empty if the family has one series.
  std::string help;
};
std::vector<MetricFamilyInfo> metric_families();

}  // namespace isocost
