#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/layout_search.h"

namespace isocost {

/// Sums and extremes of the batches that layouts are priced with.
struct BatchSummary {
  std::size_t samples = 0;  ///< Of one batch.
  SampleCost mean;          ///< Of a sample.
  SampleCost largest;       ///< Field by field.

  static BatchSummary of(std::span<const std::vector<SampleCost>> batches);
};

/// One module with given degrees on its own ranks.
struct ModuleOption {
  ModuleDegrees degrees;
  double work_s = 0;  ///< Of the busiest stage for one mean sample.
  double pass_s = 0;  ///< Of all stages for one mean sample.
  double reduce_s = 0;
  double state_bytes = 0;       ///< Of the fullest stage, counted for all of them.
  double activation_bytes = 0;  ///< Of the first stage for one mean sample.
  double largest_bytes = 0;     ///< The same for the largest sample.
};

/// A layout with what it takes at least and about.
struct LayoutCandidate {
  Layout layout;
  double bound_s = 0;     ///< No plan of the mean batch is faster.
  double estimate_s = 0;  ///< Equal microbatches through unequal stages.
};

struct LayoutSpace {
  std::vector<LayoutCandidate> candidates;  ///< By estimate, ascending.
  std::size_t enumerated = 0;
  std::size_t over_memory = 0;  ///< Which no plan could bring below it.
  double least_memory = 0;      ///< Of the layouts left out for it, the smallest need in bytes.
};

/// Tensor degrees that divide the heads and stay in a node, pipeline degrees up to the layers, data
/// degrees up to what `gpus` allow.
std::vector<ModuleOption> encoder_options(const JobModel& job, const BatchSummary& batch,
                                          std::size_t gpus);
std::vector<ModuleOption> llm_options(const JobModel& job, const BatchSummary& batch,
                                      std::size_t gpus);

/// Calls `visit(encoder, llm)` for every pair that takes all GPUs: LLM by LLM, for each the
/// encoders, both in the order of their options. Tells the context's progress of `what`.
/// Errors: kCancelled where the context's stop token asks.
Status visit_pairs(const JobModel& job, const BatchSummary& batch,
                   const LayoutSearchOptions& options, const LayoutSearchContext& context,
                   std::string_view what,
                   const std::function<void(const ModuleOption&, const ModuleOption&)>& visit);

/// Numbers of microbatches worth trying: 1, 2, 3, 4, 6, 8, 12, … up to `most`.
std::vector<std::size_t> microbatch_counts(std::size_t most);

/// Errors: kCancelled.
Result<LayoutSpace> enumerate_layouts(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options,
                                      const LayoutSearchContext& context);

/// True where tensor and data degrees of the modules are equal, or they share ranks.
bool treats_alike(const Layout& layout);

}  // namespace isocost
