#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/result.h"
#include "costmodel/sample_cost.h"

namespace isocost::paper {

using Batches = std::vector<std::vector<SampleCost>>;

/// The part of a GPU's memory that state and activations may take, as in the layout search.
inline constexpr double kUsableMemory = 0.9;

/// Returns the layout in which every GPU runs the whole model, with weights sharded over `shard`
/// GPUs.
Layout whole_model(std::size_t gpus, std::size_t microbatches, std::size_t shard);

/// One simulated step.
struct Step {
  double seconds = 0;
  double idle_fraction = 0;
  double memory_gib = 0;  ///< State and activations of the fullest GPU.
  double plan_s = 0;      ///< Measured CPU seconds of planning; 0 for a plan that was given.
};

/// A layout's pipeline, and the samples' costs in it.
class LayoutSteps {
 public:
  /// Errors: those of make_pipeline().
  static Result<LayoutSteps> create(const JobModel& job, const Layout& layout,
                                    const SampleCost& mean);

  /// Simulates samples dealt in the order in which they were drawn, which is random.
  Result<Step> random(std::span<const SampleCost> samples) const;
  /// Simulates our plan: coupled, or decoupled if that is shorter, as a node plans.
  Result<Step> ours(std::span<const SampleCost> samples, std::int64_t evaluations,
                    std::uint64_t seed) const;
  /// Returns our coupled plan.
  Result<MicrobatchBins> coupled(std::span<const SampleCost> samples, std::int64_t evaluations,
                                 std::uint64_t seed) const;
  /// Simulates given microbatches in the order given.
  Result<Step> given(std::span<const SampleCost> samples, const MicrobatchBins& bins) const;
  /// Returns a lower bound on any plan: the busiest stage's share of all work, the least seconds
  /// in which the first microbatches reach that stage and the gradients of the last ones leave the
  /// pipeline, and the layers whose transfers nothing overlaps with. Each replica's first and last
  /// microbatch holds at least one sample, and replicas share none.
  double bound(std::span<const SampleCost> samples) const;

  const PipelineModel& model() const { return model_; }
  bool fits(const Step& step) const;

 private:
  LayoutSteps(const JobModel& job, const Layout& layout, PipelineModel model, RankMemory state);
  std::vector<SampleCost> spread(std::span<const SampleCost> samples) const;
  Result<Step> simulated(const PipelineStep& step) const;
  PipelineSearchOptions options(std::int64_t evaluations, std::uint64_t seed) const;

  JobModel job_;
  Layout layout_;
  PipelineModel model_;
  RankMemory state_;
};

/// Draws `count` global batches of `size` samples each, with replacement.
Batches draw(std::span<const Load> loads, const CostProfile& profile, std::size_t count,
             std::size_t size, std::uint64_t seed);
/// Returns the mean cost over all batches.
SampleCost mean_of(const Batches& batches);

}  // namespace isocost::paper
