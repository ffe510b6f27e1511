#pragma once

#include <string>
#include <vector>

#include "loader/dataset/dataset.h"
#include "loader/node/internal/job_order.h"
#include "loader/plan/plan_options.h"

namespace isocost {

/// Returns what the log says at a node's start of the order of samples: that windows of shuffle =
/// blocks hold all shards, and how often an epoch asks servers for single samples.
std::vector<std::string> order_notes(const PlanOptions& options, const Dataset& dataset,
                                     const JobOrder& order);

}  // namespace isocost
