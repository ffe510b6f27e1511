#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "balancer/layout/internal/module_options.h"
#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"

namespace isocost {

/// A layout with a lower bound and an estimate of its step.
struct LayoutCandidate {
  Layout layout;
  double bound_s = 0;     ///< Lower bound: no plan of the mean batch is faster.
  double estimate_s = 0;  ///< Estimate for equal microbatches.
};

struct LayoutSpace {
  std::vector<LayoutCandidate> candidates;  ///< Ascending by estimate.
  std::size_t enumerated = 0;
  std::size_t over_memory = 0;  ///< Layouts that no plan could fit into the memory.
  double least_memory = 0;      ///< Smallest need in bytes of the layouts over memory.
};

/// Calls `visit(encoder, llm)` for every pair of options that uses all GPUs, in the order of the
/// LLM's options and, for each, of the encoder's. Reports progress of `what` to the context.
/// Errors: kCancelled if the context's stop token requests it.
Status visit_pairs(const JobModel& job, const BatchSummary& batch,
                   const LayoutSearchOptions& options, const LayoutSearchContext& context,
                   std::string_view what,
                   const std::function<void(const ModuleOption&, const ModuleOption&)>& visit);

/// Returns the numbers of microbatches to try: 1, 2, 3, 4, 6, 8, 12, … up to `most`.
std::vector<std::size_t> microbatch_counts(std::size_t most);

/// Enumerates all layouts that may fit the memory. Errors: kCancelled.
Result<LayoutSpace> enumerate_layouts(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options,
                                      const LayoutSearchContext& context);

/// Returns whether both modules have equal tensor and data degrees, or share ranks.
bool treats_alike(const Layout& layout);

}  // namespace isocost
