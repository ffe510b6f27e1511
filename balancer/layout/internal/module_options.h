#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
  double forward = 0;           ///< The forward pass's part of the seconds.
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
  double state_bytes = 0;     ///< State of the fullest stage; assumed for all stages.
  bool reshard = true;        ///< See ModuleTraining.
  PassTransfers shards = {};  ///< Transfers of a microbatch, for sharded weights.
  /// With the recomputations that are tried, from the least to the most: each takes longer and
  /// keeps less. Never empty.
  std::vector<SampleWork> works;
};

/// Returns a layout of the search without degrees: how the modules are trained, and the schedule.
Layout layout_of(const LayoutSearchOptions& options);

/// Returns the recomputations to try for a module, from the least to the most.
std::vector<Recompute> recomputations(const LayoutSearchOptions& options, bool encoder);
/// Returns the numbers of replicas over which to shard the weights: one, all of them, and those
/// within a machine.
std::vector<std::size_t> shards(const JobModel& job, const LayoutSearchOptions& options,
                                const ModuleDegrees& degrees);
/// Returns whether to drop a module's sharded weights after a forward pass: true, and false where a
/// backward pass would gather them again.
std::vector<bool> reshardings(const LayoutSearchOptions& options, const ModuleDegrees& degrees,
                              bool encoder);

/// Returns whether passes take fewer seconds with these transfers, of weights that stay gathered,
/// than if the backward passes gather them again. They compute for `busy_s`, and the part `forward`
/// of them in forward passes.
bool saves_gathering(const PassTransfers& once, double busy_s, double forward);

/// Returns the degrees to try for a module: tensor degrees that divide the heads and stay within a
/// node, pipeline degrees up to the number of layers, data degrees up to what `gpus` allow.
std::vector<ModuleOption> encoder_options(const JobModel& job, const BatchSummary& batch,
                                          const LayoutSearchOptions& options);
std::vector<ModuleOption> llm_options(const JobModel& job, const BatchSummary& batch,
                                      const LayoutSearchOptions& options);

}  // namespace isocost
