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

/// Means and maxima of the batches on which layouts are scored.
struct BatchSummary {
  std::size_t samples = 0;  ///< Samples per batch.
  SampleCost mean;          ///< Mean cost of a sample.
  SampleCost largest;       ///< Largest value of each field.

  static BatchSummary of(std::span<const std::vector<SampleCost>> batches);
};

/// The work of a module for a sample, with one kind of recomputation.
struct SampleWork {
  Recompute recompute = Recompute::kNone;
  double work_s = 0;            ///< Seconds of the busiest stage for one mean sample.
  double pass_s = 0;            ///< Seconds of all stages for one mean sample.
  double activation_bytes = 0;  ///< First stage's activations for one mean sample.
  double largest_bytes = 0;     ///< First stage's activations for the largest sample.
  double working_bytes = 0;     ///< Held beside them while a pass of that sample runs.
};

/// One module with given degrees on its own ranks.
struct ModuleOption {
  ModuleDegrees degrees;
  StepTransfers transfers = {};
  double state_bytes = 0;  ///< State of the fullest stage; assumed for all stages.
  double shards_s = 0;     ///< A microbatch takes at least these, for sharded weights.
  /// With the recomputations that are tried, from the least to the most: each takes longer and
  /// keeps less. Never empty.
  std::vector<SampleWork> works;
};

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

/// Returns the degrees to try for a module: tensor degrees that divide the heads and stay within a
/// node, pipeline degrees up to the number of layers, data degrees up to what `gpus` allow.
std::vector<ModuleOption> encoder_options(const JobModel& job, const BatchSummary& batch,
                                          const LayoutSearchOptions& options);
std::vector<ModuleOption> llm_options(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options);

/// Calls `visit(encoder, llm)` for every pair of options that uses all GPUs, in the order of the
/// LLM's options and, for each, of the encoder's. Reports progress of `what` to the context.
/// Errors: kCancelled if the context's stop token requests it.
Status visit_pairs(const JobModel& job, const BatchSummary& batch,
                   const LayoutSearchOptions& options, const LayoutSearchContext& context,
                   std::string_view what,
                   const std::function<void(const ModuleOption&, const ModuleOption&)>& visit);

/// Returns a layout of the search without degrees: how the modules are trained, and the schedule.
Layout layout_of(const LayoutSearchOptions& options);
/// Returns the numbers of microbatches to try: 1, 2, 3, 4, 6, 8, 12, … up to `most`.
std::vector<std::size_t> microbatch_counts(std::size_t most);

/// Enumerates all layouts that may fit the memory. Errors: kCancelled.
Result<LayoutSpace> enumerate_layouts(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options,
                                      const LayoutSearchContext& context);

/// Returns whether both modules have equal tensor and data degrees, or share ranks.
bool treats_alike(const Layout& layout);

}  // namespace isocost
