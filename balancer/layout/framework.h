#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "balancer/layout/layout.h"
#include "balancer/layout/layout_model.h"

namespace isocost {

/// The framework that trains by a layout. A search can be restricted to the layouts that it runs.
enum class Framework : std::uint8_t {
  kAny,    ///< A trainer that follows any layout.
  kFsdp2,  ///< PyTorch's fully_shard and DistributedDataParallel: whole models on every rank.
  /// Megatron-LM's examples/multimodal: encoder and LLM in one pipeline, with the whole encoder on
  /// its first stage, and equally many layers of the LLM on all stages. (Its model.py gives the
  /// encoder the layers of an unequal last stage.) The encoder recomputes nothing: its only
  /// checkpoint is all of its layers, which a backward pass then holds at once.
  kMegatron,
};

/// Return "any", "fsdp2" or "megatron".
std::string_view framework_name(Framework framework);
std::optional<Framework> framework_from_name(std::string_view name);

/// Returns whether the framework runs an encoder on its own ranks.
bool runs_encoder_ranks(Framework framework);

/// Returns whether stages may recompute different activations.
bool recomputes_by_stage(Framework framework);

/// Returns whether the framework trains low-rank adapters.
bool trains_adapters(Framework framework);

/// Returns whether the framework runs both modules of a job in one pipeline with these degrees.
bool runs(Framework framework, const JobModel& job, const ModuleDegrees& degrees);

/// Returns a layout of one pipeline, whose degrees the framework runs, with what else the framework
/// fixes: the optimizer's state, the layers of each stage, and what the encoder recomputes.
Layout fit_to(Framework framework, const JobModel& job, Layout layout);

}  // namespace isocost
