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

/// Budgets of a search, counted in simulator evaluations, so one input has one plan.
struct PipelineSearchOptions {
  /// Local search, shared by all groups of pipelines that wait for each other.
  std::int64_t evaluations = 32'000;
  /// Exchanges of samples between the slowest group and others.
  std::int64_t exchanges = 1000;
  ActivationCaps caps = {};
  std::uint64_t seed = 0;
};

/// The microbatches of a step, in the order in which they run.
struct PipelinePlan {
  MicrobatchBins bins;       ///< [LLM replicas × microbatches], samples in ascending order.
  double step_s = 0;         ///< Simulated seconds of the step.
  double lower_bound_s = 0;  ///< pipeline_bound, a lower bound on any plan.
  bool fits = true;          ///< Whether the activation caps are kept.
};

/// Rules by which samples are divided over microbatches.
enum class PipelinePolicy : std::uint8_t {
  kInOrder,  ///< Samples are dealt in order, as data loaders do without balancing.
  kTokens,   ///< LPT over LLM tokens, microbatches in that order.
  kLpt,      ///< Vector LPT over encoder and LLM seconds, microbatches in random order.
  kCost,     ///< balance(), then division and order are searched with the simulator.
};

/// Returns "in-order", "tokens", "lpt" or "cost".
std::string_view policy_name(PipelinePolicy policy);
std::optional<PipelinePolicy> policy_from_name(std::string_view name);

/// Divides samples into microbatches and orders them. kCost starts from balance() over encoder and
/// LLM seconds and from divisions whose microbatches become smaller towards both ends, then
/// searches division and order together. Its plan is never longer than that of kLpt for the same
/// seed. Deterministic. Errors: those of order_microbatches(); kInvalidArgument if there are fewer
/// samples than microbatches.
Result<PipelinePlan> plan_pipeline(const PipelineModel& model, std::span<const SampleCost> samples,
                                   PipelinePolicy policy, const PipelineSearchOptions& options);

/// Orders given microbatches so that the simulated step is short: small ones towards both ends,
/// where the pipeline fills and drains, then local search. Microbatches move within their replica,
/// and between replicas that share an encoder. Never longer than the order given. Deterministic.
/// Errors: those of PipelineModel::validate and simulate; kInvalidArgument if `bins` does not match
/// the model's slots.
Result<PipelinePlan> order_microbatches(const PipelineModel& model,
                                        std::span<const SampleCost> samples,
                                        const MicrobatchBins& bins,
                                        const PipelineSearchOptions& options);

/// Simulates given microbatches in the order given. Errors: those of order_microbatches().
Result<PipelinePlan> evaluate_microbatches(const PipelineModel& model,
                                           std::span<const SampleCost> samples,
                                           const MicrobatchBins& bins,
                                           const PipelineSearchOptions& options);

/// Searches division and order from `bins`, as plan_pipeline() does from its own start. Never
/// longer than `bins`. Deterministic. Errors: those of order_microbatches(); kInvalidArgument for
/// an empty microbatch.
Result<PipelinePlan> refine_pipeline(const PipelineModel& model,
                                     std::span<const SampleCost> samples,
                                     const MicrobatchBins& bins,
                                     const PipelineSearchOptions& options);

/// Returns the samples of a step as a problem for balance(), with the objective kLargestMicrobatch.
/// The two dimensions are the seconds of the busiest stage of the encoder and of the LLM.
BalanceProblem pipeline_problem(const PipelineModel& model, std::span<const SampleCost> samples);

/// Redistributes samples over consecutive global batches (see compose_batches) if the sum of the
/// simulated steps falls, each step planned without local search; else returns the batches as
/// drawn. `window` holds the samples of all batches in their order. `sizes` [samples × resources]
/// is what they hold of `resources`, which are capped for each microbatch. The seconds of the
/// result are sums of simulated steps. Errors: those of compose_batches() and plan_pipeline().
Result<Composition> compose_pipeline_batches(const PipelineModel& model,
                                             std::span<const SampleCost> window,
                                             const std::vector<std::size_t>& batch_sizes,
                                             std::vector<Resource> resources = {},
                                             std::vector<std::int64_t> sizes = {});

}  // namespace isocost
