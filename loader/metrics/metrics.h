#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "loader/metrics/node_summary.h"
#include "loader/node/internal/delivery_queue.h"
#include "loader/node/internal/training_meter.h"

namespace isocost {

/// What a node has done and is doing, at one moment: what /metrics and `isocost top` show. A plain
/// value.
struct NodeMetrics {
  double uptime_s = 0;
  NodeSummary summary;
  TrainingMeter::Totals training;
  bool correct = true;  ///< NodeOptions::correct.
  CorrectionStatus correction;

  std::int64_t ranks = 0;  ///< Of the job; 0 before the first.
  std::int64_t ranks_present = 0;
  std::vector<std::string> places;  ///< Of a layout's seats; empty without one.
  DeliveryQueue::Depth queue;

  std::int64_t memory_bytes = 0;
  std::int64_t memory_budget_bytes = 0;
  std::int64_t waiting_bytes = 0;
  std::int64_t waiting_samples = 0;
  std::int64_t decoded_bytes = 0;
};

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
