#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"

namespace isocost::cli {

/// Results that `isocost plan` prints.
struct PlanReport {
  LayoutSearchResult found;
  /// Scores on batches that the search has not seen: those of the best layout, and of the layouts
  /// that it is compared with.
  std::vector<std::pair<std::string, LayoutScore>> fresh = {};
  std::size_t wanted = 0;  ///< Number of layouts that --top requested.
  double search_s = 0;
};

void print_plan_text(const PlanReport& report, const JobModel& job);
void print_plan_json(const PlanReport& report, const JobModel& job);

}  // namespace isocost::cli
