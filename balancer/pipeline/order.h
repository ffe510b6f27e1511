#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "balancer/partition/balance.h"
#include "balancer/partition/lookahead.h"
#include "balancer/pipeline/pipeline_model.h"
#include "base/result.h"

namespace isocost {

/// Budgets are looks at the simulator: counts, so that one input gives one plan.
struct OrderOptions {
  std::int64_t evaluations = 32'000;  ///< Over all groups of pipelines that wait for each other.
  std::int64_t exchanges = 1000;      ///< Of samples between the slowest group and others.
  ActivationCaps caps = {};
  std::uint64_t seed = 0;
};

/// A step's microbatches in the order in which they run.
struct PipelinePlan {
  MicrobatchBins bins;  ///< [LLM replicas × microbatches], samples ascending.
  double step_s = 0;
  double lower_bound_s = 0;  ///< pipeline_bound: no plan can be below it.
  bool fits = true;          ///< The cap on activations is kept.
};

/// Permutes the microbatches of each replica (replicas that share an encoder exchange them, too) so
/// that the simulated step is short: small ones towards both ends, where the pipeline fills and
/// drains, then local search. Never longer than as given. Deterministic. Errors: those of
/// PipelineModel::validate and simulate; kInvalidArgument where `bins` are not the model's places.
Result<PipelinePlan> order_microbatches(const PipelineModel& model,
                                        std::span<const SampleCost> samples,
                                        const MicrobatchBins& bins, const OrderOptions& options);

enum class PipelinePolicy : std::uint8_t {
  kInOrder,  ///< Samples dealt in order, as loaders do today.
  kLpt,      ///< Vector LPT over encoder and LLM seconds, microbatches in random order.
  kCost,     ///< Balanced, then divided and ordered against the simulator.
};

/// "in-order", "lpt", "cost".
std::string_view policy_name(PipelinePolicy policy);
std::optional<PipelinePolicy> policy_from_name(std::string_view name);

/// Divides samples into microbatches and orders them. kCost starts from balance() over encoder
/// and LLM seconds and from divisions whose microbatches taper towards both ends, then searches
/// division and order together; it is never longer than kLpt's plan for the same seed. Errors:
/// as order_microbatches; kInvalidArgument for fewer samples than microbatches.
Result<PipelinePlan> plan_pipeline(const PipelineModel& model, std::span<const SampleCost> samples,
                                   PipelinePolicy policy, const OrderOptions& options);

/// Tapers and searches division and order from `bins`, as plan_pipeline does from its own: never
/// longer than they are. Errors: as order_microbatches; kInvalidArgument for an empty microbatch.
Result<PipelinePlan> refine_pipeline(const PipelineModel& model,
                                     std::span<const SampleCost> samples,
                                     const MicrobatchBins& bins, const OrderOptions& options);

/// Samples of a step as a problem of balance(): two dimensions, seconds of the busiest stage of the
/// encoder and of the LLM, into microbatches of which the largest counts.
BalanceProblem pipeline_problem(const PipelineModel& model, std::span<const SampleCost> samples);

/// Composes consecutive global batches anew (see compose_batches), where their simulated steps get
/// shorter by it: seconds are sums of steps, each planned without local search. `window` holds the
/// samples of all batches in their order, `bytes` theirs, or nothing, and then there is no cap.
/// Errors: those of compose_batches and plan_pipeline.
Result<Composition> compose_pipeline_batches(const PipelineModel& model,
                                             std::span<const SampleCost> window,
                                             const std::vector<std::size_t>& batch_sizes,
                                             std::span<const std::int64_t> bytes = {},
                                             std::int64_t microbatch_bytes = 0);

}  // namespace isocost
