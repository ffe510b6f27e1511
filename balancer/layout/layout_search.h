#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/layout/framework.h"
#include "balancer/layout/layout_model.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/executor/executor.h"
#include "base/result.h"

namespace isocost {

/// The simulated score of a layout over sampled global batches, each planned with plan_pipeline()
/// as at run time.
struct LayoutScore {
  Layout layout = {};
  double step_s = 0;         ///< Mean simulated seconds over the batches.
  double idle_fraction = 0;  ///< Mean over the batches.
  double work_s = 0;         ///< Mean seconds of passes on the busiest stage.
  double reduce_s = 0;       ///< Mean seconds of gradient reduction on the busiest stage.
  /// The largest sum over batches and ranks of a rank's activations and the state of its module's
  /// fullest stage. An upper bound on any rank's memory.
  std::int64_t memory_bytes = 0;
  bool fits = true;  ///< Whether every batch stays within the memory.

  /// Returns the rest of the step, in which the busiest stage waits.
  double wait_s() const { return step_s - work_s - reduce_s; }
};

struct LayoutSearchOptions {
  std::size_t gpus = 64;
  Framework framework = Framework::kAny;  ///< Layouts that it does not run are left out.
  Schedule schedule = Schedule::k1F1B;
  /// How the modules are trained. Their recomputation is the least that a layout may have.
  ModuleTraining encoder_training = {};
  ModuleTraining llm_training = {};
  bool replicated_optimizer = false;  ///< See Layout.
  bool shard_weights = false;  ///< Whether layouts with sharded weights (FSDP, HSDP) are tried.
  /// The most recomputation to try, in layouts that do not fit with less.
  Recompute most_recompute = Recompute::kNone;
  std::size_t keep = 5;        ///< Number of layouts in the result.
  double usable_memory = 0.9;  ///< Part of a GPU's memory. The rest is for libraries and fragments.
  /// Layouts simulated in the first round, in the order of their estimates.
  std::size_t screened_layouts = 240;
  /// Layouts of the first round that are searched on more batches; more if `keep` requires it.
  std::size_t refined_layouts = 24;
  std::int64_t evaluations = 8'000;  ///< Simulator evaluations per plan of the last round.
  std::uint64_t seed = 0;
};

/// A finished score, which a caller can store to resume a search.
struct LayoutRecord {
  std::string key;  ///< Identifies round and layout.
  LayoutScore score;
};

/// Resources and callbacks of a search. Callbacks run on the calling thread.
struct LayoutSearchContext {
  Executor* executor = nullptr;  ///< Required.
  std::stop_token stop;
  /// Returns the score of an earlier run with the same inputs, if it is known. Optional.
  std::function<std::optional<LayoutScore>(std::string_view key)> recall;
  /// Receives each new score. Optional.
  std::function<void(const LayoutRecord&)> record;
  /// Receives the progress of the part `what`. Optional.
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
};

struct LayoutSearchResult {
  std::vector<LayoutScore> best;  ///< By step seconds, ascending; at most `keep`.
  /// The best layout whose modules have equal tensor and data degrees, or share one pipeline.
  std::optional<LayoutScore> alike;
  std::optional<LayoutScore> mean_shape;  ///< The layout of the published rule (mean_shape_layout).
  std::size_t enumerated = 0;
  std::size_t over_memory = 0;  ///< Not simulated: no plan could fit the memory.
  std::size_t over_bound = 0;   ///< Not simulated: the lower bound exceeds the best step.
  std::size_t simulated = 0;
};

/// Returns the refusal of a search for a model whose layers have this many experts. `what` names
/// where that is said.
Error experts_are_not_planned(const std::string& what, std::int64_t experts);

/// Searches for the layout with the shortest simulated step. Enumerates the tensor, pipeline and
/// data degrees of encoder and LLM and the number of microbatches, prunes by memory and by the
/// lower bound, and scores the remaining layouts on `batches` (global batches of equal size, priced
/// by the profile). Deterministic for any executor. Blocks until the search ends. Errors:
/// kInvalidArgument if there are no batches or samples, or if layers are mixtures of experts;
/// kResourceExhausted, naming the missing memory of the closest layout, if none fits; kCancelled.
Result<LayoutSearchResult> search_layouts(const JobModel& job,
                                          std::span<const std::vector<SampleCost>> batches,
                                          const LayoutSearchOptions& options,
                                          const LayoutSearchContext& context);

/// Scores one layout on batches, whose samples are divided by `policy`. Errors: those of
/// make_pipeline() and plan_pipeline().
Result<LayoutScore> score_layout(const JobModel& job, const Layout& layout,
                                 std::span<const std::vector<SampleCost>> batches,
                                 const LayoutSearchOptions& options, std::int64_t evaluations,
                                 PipelinePolicy policy = PipelinePolicy::kCost);

/// Chooses a layout by the published rule (DFLOP's data_aware_optimizer, re-implemented from its
/// description): a step takes (m + encoder and LLM stages - 1) × the longer of both modules' mean
/// stage seconds, without communication; memory is 1.25 × (state + activations of the largest
/// sample); a layout replaces the current one only if it is below 1.1 × its seconds and has fewer
/// microbatches. Returns nothing if no layout fits. Uses the stop token and the progress callback
/// of `context`. Errors: kCancelled.
Result<std::optional<Layout>> mean_shape_layout(const JobModel& job,
                                                std::span<const std::vector<SampleCost>> batches,
                                                const LayoutSearchOptions& options,
                                                const LayoutSearchContext& context);

/// Returns a sentence that says why `other` is slower than `best`: the part of the step that grows
/// most.
std::string why_slower(const LayoutScore& best, const LayoutScore& other);

}  // namespace isocost
