#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"
#include "loader/report/savings.h"

namespace isocost::cli {

/// Results that `isocost plan` prints.
struct PlanReport {
  LayoutSearchResult found;
  /// Scores on batches that the search has not seen: those of the best layout, and of the layouts
  /// that it is compared with.
  std::vector<std::pair<std::string, LayoutScore>> fresh = {};
  Framework framework = Framework::kAny;  ///< The one that --emit named.
  std::size_t wanted = 0;                 ///< Number of layouts that --top requested.
  Savings savings = {};
  std::optional<LoaderNeeds> needs = {};  ///< Nothing if the samples' bytes are not known.
  /// The parts of the work and their seconds, in their order; the search is the last.
  std::vector<std::pair<std::string, double>> took = {};
};

void print_plan_text(const PlanReport& report, const JobModel& job);
void print_plan_json(const PlanReport& report, const JobModel& job);

}  // namespace isocost::cli
