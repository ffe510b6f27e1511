#pragma once

#include <string>

#include "loader/metrics/snapshot.h"

namespace isocost {

/// Returns the page /metrics: every family of docs/metric_list.md, in that order, with HELP and
/// TYPE, in Prometheus's text format 0.0.4. Unknown values (a prediction error before the first
/// measurement) are left out; their families stay.
std::string prometheus_text(const NodeMetrics& metrics);

}  // namespace isocost
