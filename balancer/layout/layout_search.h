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

#include "balancer/layout/layout_model.h"
#include "balancer/pipeline/order.h"
#include "base/executor.h"
#include "base/result.h"

namespace isocost {

/// What a layout makes of sampled global batches, each planned as at run time (plan_pipeline).
struct LayoutScore {
  Layout layout = {};
  double step_s = 0;      ///< Mean over the batches, simulated.
  double idle_share = 0;  ///< Mean.
  double work_s = 0;      ///< Mean: the busiest stage's passes ...
  double reduce_s = 0;    ///< ... its gradient reduction; the rest of a step is waiting.
  /// Over the batches the most activations of any rank, and the state of its module's fullest
  /// stage: never less than a rank takes.
  std::int64_t memory_bytes = 0;
  bool fits = true;  ///< Every batch keeps the memory.

  double wait_s() const { return step_s - work_s - reduce_s; }
};

struct LayoutSearchOptions {
  std::size_t gpus = 64;
  Schedule schedule = Schedule::k1F1B;
  std::size_t keep = 5;              ///< Layouts in the answer.
  double usable_memory = 0.9;        ///< Of a GPU's; the rest is for libraries and fragments.
  std::size_t first_looks = 240;     ///< Layouts simulated at all, the most promising first.
  std::size_t second_looks = 24;     ///< Of these, searched on more batches; or as `keep` asks.
  std::int64_t evaluations = 8'000;  ///< Looks at the simulator for a plan of the last round.
  std::uint64_t seed = 0;
};

/// What a search has found so far, for one who wants to stop and go on later.
struct LayoutRecord {
  std::string key;  ///< Round and layout.
  LayoutScore score;
};

/// What a search is given beside its options. `recall` may know a record of an earlier run with the
/// same inputs; `record` is told each new one, from the calling thread.
struct LayoutSearchContext {
  Executor* executor = nullptr;  ///< Required.
  std::stop_token stop;
  std::function<std::optional<LayoutScore>(std::string_view key)> recall;
  std::function<void(const LayoutRecord&)> record;
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
};

struct LayoutSearchResult {
  std::vector<LayoutScore> best;     ///< By step seconds, ascending; at most `keep`.
  std::optional<LayoutScore> alike;  ///< The best where both modules have the same tensor and data
                                     ///< degrees, or stand in one pipeline.
  std::optional<LayoutScore> mean_shape;  ///< The published rule's choice (see mean_shape_layout).
  std::size_t enumerated = 0;
  std::size_t over_memory = 0;  ///< Not simulated, since no plan could keep the memory.
  std::size_t over_bound = 0;   ///< Not simulated, since no plan can be faster than the best.
  std::size_t simulated = 0;
};

/// Enumerates tensor × pipeline × data degrees of encoder and LLM and the number of microbatches,
/// prunes by memory and bound, and scores what is left by the simulated step over `batches` (global
/// batches in the profile's seconds, all of one size). Deterministic, whatever the executor.
/// Errors: kInvalidArgument for no batches or samples; kResourceExhausted where no layout fits the
/// memory, naming what the nearest one lacks; kCancelled.
Result<LayoutSearchResult> search_layouts(const JobModel& job,
                                          std::span<const std::vector<SampleCost>> batches,
                                          const LayoutSearchOptions& options,
                                          const LayoutSearchContext& context);

/// Scores one layout on batches. Errors: those of make_pipeline and plan_pipeline.
Result<LayoutScore> score_layout(const JobModel& job, const Layout& layout,
                                 std::span<const std::vector<SampleCost>> batches,
                                 const LayoutSearchOptions& options, std::int64_t evaluations);

/// The published rule (DFLOP's data_aware_optimizer, re-implemented from its description): a step
/// is (m + encoder and LLM stages - 1) × the longer of both modules' mean stage seconds, without
/// communication; memory is 1.25 × (state + activations at the largest sample); and a layout
/// replaces the one found before only where it is below 1.1 × its seconds with fewer microbatches.
/// Nothing where no layout fits. Of the context, stop token and progress are used. Errors:
/// kCancelled.
Result<std::optional<Layout>> mean_shape_layout(const JobModel& job,
                                                std::span<const std::vector<SampleCost>> batches,
                                                const LayoutSearchOptions& options,
                                                const LayoutSearchContext& context);

/// Why `other` is slower than `best`, in words: the part of the step that grows most.
std::string why_slower(const LayoutScore& best, const LayoutScore& other);

}  // namespace isocost
