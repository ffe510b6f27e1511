#include "balancer/layout/better_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace isocost {
namespace {

// A quick search: it runs beside decoding, and its user then plans in full.
constexpr std::size_t kScreened = 96;
constexpr std::size_t kRefined = 8;
constexpr std::int64_t kEvaluations = 2'000;

Recompute most_recompute(const Layout& layout) {
  return std::max(*std::ranges::max_element(layout.encoder_training.recompute),
                  *std::ranges::max_element(layout.llm_training.recompute));
}

bool has_backward(const JobModel& job, CostModule module) {
  const auto share = job.profile.modules.at(static_cast<std::size_t>(module)).forward_share;
  return share && *share < 1;
}

// Returns how a module is trained by the layout, or whole if it was thawed since.
ModuleTraining training_now(const JobModel& job, CostModule module, ModuleTraining training) {
  if (training.weights == TrainedWeights::kNone && has_backward(job, module)) {
    training.weights = TrainedWeights::kAll;
  }
  return training;
}

// Returns the framework whose layouts `present` is one of.
Framework framework_of(const JobModel& job, const Layout& present) {
  if (present.encoder_place != EncoderPlacement::kLlmRanks) return Framework::kAny;
  if (present.schedule != Schedule::k1F1B) return Framework::kAny;  // files are for 1f1b alone
  const bool adapts = present.encoder_training.weights == TrainedWeights::kAdapters ||
                      present.llm_training.weights == TrainedWeights::kAdapters;
  for (const Framework framework : {Framework::kFsdp2, Framework::kMegatron}) {
    if (adapts && !trains_adapters(framework)) continue;
    if (runs(framework, job, present.llm) && fit_to(framework, job, present) == present) {
      return framework;
    }
  }
  return Framework::kAny;
}

}  // namespace

double LayoutComparison::gain() const {
  return best.step_s > 0 ? std::max(0.0, present.step_s / best.step_s - 1) : 0;
}

std::optional<std::int64_t> gpu_memory_of(const Layout& layout, const RankMemory& state,
                                          double usable) {
  const auto used_by = [](std::int64_t cap, std::int64_t of_state) {
    return cap > 0 ? cap + of_state : 0;
  };
  const ActivationCaps& caps = layout.activation_caps;
  const std::int64_t used = std::max(used_by(caps.encoder_bytes, state.encoder_state),
                                     used_by(caps.llm_bytes, state.llm_state));
  if (used == 0) return std::nullopt;
  const double mib = static_cast<double>(used) / usable / static_cast<double>(kMiB);
  return std::llround(mib) * kMiB;
}

LayoutSearchOptions search_like(const JobModel& job, const Layout& present) {
  LayoutSearchOptions options;
  options.gpus = present.ranks();
  options.framework = framework_of(job, present);
  if (present.schedule != Schedule::kInterleaved1F1B) options.schedule = present.schedule;
  options.encoder_training = training_now(job, job.encoder_module, present.encoder_training);
  options.llm_training = training_now(job, CostModule::kLlm, present.llm_training);
  options.most_recompute = most_recompute(present);
  options.encoder_training.recompute = options.llm_training.recompute = {Recompute::kNone};
  options.replicated_optimizer = present.replicated_optimizer;
  options.shard_weights = present.llm.shard > 1 || present.encoder.shard > 1;
  options.keep = 1;
  options.screened_layouts = kScreened;
  options.refined_layouts = kRefined;
  options.evaluations = kEvaluations;
  return options;
}

Result<LayoutComparison> compare_with_best(const JobModel& job, const Layout& present,
                                           std::span<const std::vector<SampleCost>> batches,
                                           const LayoutSearchContext& context) {
  const LayoutSearchOptions options = search_like(job, present);
  Layout trained = present;
  trained.encoder_training.weights = options.encoder_training.weights;
  trained.llm_training.weights = options.llm_training.weights;
  LayoutComparison comparison;
  ISOCOST_ASSIGN(comparison.present,
                 score_layout(job, trained, batches, options, options.evaluations));
  ISOCOST_ASSIGN(LayoutSearchResult found, search_layouts(job, batches, options, context));
  comparison.best = std::move(found.best.front());
  return comparison;
}

}  // namespace isocost
