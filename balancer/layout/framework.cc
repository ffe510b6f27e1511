#include "balancer/layout/framework.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace isocost {
namespace {

constexpr std::array<std::pair<Framework, std::string_view>, 3> kNames = {
    {{Framework::kAny, "any"}, {Framework::kFsdp2, "fsdp2"}, {Framework::kMegatron, "megatron"}}};

// The whole encoder is on the first stage, and all stages have equally many layers of the LLM.
LayerCut megatron_cut(const JobModel& job, const Layout& layout) {
  const std::size_t stages = layout.llm.pipeline;
  LayerCut cut{
      .encoder = std::vector<std::int64_t>(stages, 0),
      .llm = std::vector<std::int64_t>(stages, job.llm.layers / static_cast<std::int64_t>(stages))};
  cut.encoder.front() = job.encoder.layers;
  return cut;
}

}  // namespace

std::string_view framework_name(Framework framework) {
  return kNames.at(static_cast<std::size_t>(framework)).second;
}

std::optional<Framework> framework_from_name(std::string_view name) {
  for (const auto& [framework, its] : kNames) {
    if (its == name) return framework;
  }
  return std::nullopt;
}

bool runs_encoder_ranks(Framework framework) { return framework == Framework::kAny; }

// Megatron-LM has no flag for them.
bool trains_adapters(Framework framework) { return framework != Framework::kMegatron; }

bool recomputes_by_stage(Framework framework) { return framework == Framework::kAny; }

bool runs(Framework framework, const JobModel& job, const ModuleDegrees& degrees) {
  if (framework == Framework::kFsdp2) return degrees.tensor == 1 && degrees.pipeline == 1;
  if (framework == Framework::kAny) return true;
  return degrees.shard == 1 && job.llm.layers % static_cast<std::int64_t>(degrees.pipeline) == 0;
}

Layout fit_to(Framework framework, const JobModel& job, Layout layout) {
  if (framework == Framework::kFsdp2) {
    // DistributedDataParallel leaves every replica the whole optimizer.
    layout.replicated_optimizer = layout.llm.shard == 1;
  } else if (framework == Framework::kMegatron) {
    layout.layers = megatron_cut(job, layout);
    layout.encoder_training.recompute = {Recompute::kNone};
  }
  return layout;
}

}  // namespace isocost
