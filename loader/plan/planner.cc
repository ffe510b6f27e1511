#include "loader/plan/planner.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/fingerprint.h"
#include "loader/plan/internal/encoder_partition.h"

namespace isocost {
namespace {

constexpr double kLeastForward = 0.05;  // share of a pass; backward has at least as much

double forward_share_of(const CostModel& model) {
  return std::clamp(model.forward_share(), kLeastForward, 1 - kLeastForward);
}

// Keeps the exact search of a small step within about 20 ms.
BalanceOptions balance_options() {
  BalanceOptions options;
  options.exact_nodes = 200;
  return options;
}

// Simulator evaluations for the plan of a step: about 10 ms, within a few per mille of more.
constexpr std::int64_t kPipelineEvaluations = 8'000;

BalanceProblem make_problem(const PlanInput& input, std::uint32_t microbatches,
                            const CostModel& model, const PlanOptions& options) {
  BalanceProblem problem;
  problem.dimensions = kModules;
  problem.ranks = static_cast<std::size_t>(options.ranks);
  problem.microbatches = microbatches;
  // Data-parallel ranks run their modules in sequence and synchronise at the end of the step.
  problem.objective = Objective::kSlowestRank;
  if (const auto slowdowns = model.rank_slowdowns(); !slowdowns.empty()) {
    problem.rank_slowdowns.assign(problem.ranks, 1);
    std::copy_n(slowdowns.begin(), std::min(slowdowns.size(), problem.ranks),
                problem.rank_slowdowns.begin());
  }
  problem.costs.reserve(input.loads.size() * kModules);
  for (const Load& load : input.loads) {
    const ModuleSeconds seconds = model.predict_sample(load);
    problem.costs.insert(problem.costs.end(), seconds.begin(), seconds.end());
  }
  if (options.microbatch_memory > 0) {
    problem.resources = {{"bytes", options.microbatch_memory}};
    for (const Load& load : input.loads) problem.sizes.push_back(load.tensor_bytes);
  }
  return problem;
}

std::vector<SampleCost> pipeline_loads(const PlanInput& input, const CostModel& model,
                                       const ServedLayout& layout) {
  std::vector<SampleCost> samples;
  samples.reserve(input.loads.size());
  for (const Load& load : input.loads) {
    samples.push_back(layout.price(model.predict_sample(load), load));
  }
  return samples;
}

/// The microbatches of a step.
struct Division {
  BalanceResult llm;
  EncoderSlots encoder;  ///< Empty: the encoder runs the LLM's microbatches.
};

Division division_of(MicrobatchBins bins, double step_s, double bound_s, EncoderSlots encoder) {
  Division division;
  division.llm.bins = std::move(bins);
  division.llm.makespan = step_s;
  division.llm.lower_bound = bound_s;
  division.encoder = std::move(encoder);
  return division;
}

// Divides a step by LPT over LLM tokens: what a user without a cost model can do, so neither costs
// nor slowdowns enter.
Result<BalanceResult> divide_by_tokens(const PlanInput& input, const BalanceProblem& problem) {
  BalanceProblem tokens{
      .ranks = problem.ranks, .microbatches = problem.microbatches, .objective = problem.objective};
  for (const Load& load : input.loads) {
    tokens.costs.push_back(static_cast<double>(load[Module::kLlm].units));
  }
  return lpt(tokens);
}

PipelinePolicy pipeline_policy(BalancePolicy policy) {
  switch (policy) {
    case BalancePolicy::kInOrder:
      return PipelinePolicy::kInOrder;
    case BalancePolicy::kTokens:
      return PipelinePolicy::kTokens;
    case BalancePolicy::kCost:
      break;
  }
  return PipelinePolicy::kCost;
}

// Divides a whole step of a pipelined layout.
Result<Division> plan_for_pipeline(const std::vector<SampleCost>& samples,
                                   const PlanOptions& options, const BalanceProblem& problem,
                                   const PipelineModel& pipeline, const ServedLayout& layout) {
  const PipelineSearchOptions order{.evaluations = kPipelineEvaluations,
                                    .caps = layout.activation_caps()};
  PipelinePlan plan;
  if (options.balance == BalancePolicy::kCost && options.microbatch_memory == 0 &&
      !layout.coupled()) {
    ISOCOST_ASSIGN(DecoupledPlan apart,
                   plan_decoupled(pipeline, samples, PipelinePolicy::kCost, order));
    return division_of(std::move(apart.bins), apart.step_s, apart.lower_bound_s,
                       std::move(apart.encoder));
  }
  if (options.balance == BalancePolicy::kCost && options.microbatch_memory > 0) {
    // The search against the simulator knows no cap: balance under the cap, then order.
    ISOCOST_ASSIGN(BalanceResult balanced, isocost::balance(problem, balance_options()));
    ISOCOST_ASSIGN(plan, order_microbatches(pipeline, samples, balanced.bins, order));
  } else {
    ISOCOST_ASSIGN(plan, plan_pipeline(pipeline, samples, pipeline_policy(options.balance), order));
  }
  return division_of(std::move(plan.bins), plan.step_s, plan.lower_bound_s, {});
}

Result<Division> divide(const PlanInput& input, std::uint32_t microbatches, const CostModel& model,
                        const PlanOptions& options, const ServedLayout* layout) {
  BalanceProblem problem = make_problem(input, microbatches, model, options);
  if (layout != nullptr && layout->pipelined()) {
    const std::vector<SampleCost> samples = pipeline_loads(input, model, *layout);
    PipelineModel pipeline = layout->pipeline(model.rank_slowdowns());
    pipeline.forward_share = forward_share_of(model);
    BalanceProblem by_stage = pipeline_problem(pipeline, samples);
    by_stage.microbatches = microbatches;
    by_stage.resources = std::move(problem.resources);
    by_stage.sizes = std::move(problem.sizes);
    problem = std::move(by_stage);
    if (microbatches == layout->microbatches()) {
      return plan_for_pipeline(samples, options, problem, pipeline, *layout);
    }
  }
  Division division;
  if (options.balance == BalancePolicy::kInOrder) {
    ISOCOST_ASSIGN(division.llm, deal_in_order(problem));
  } else if (options.balance == BalancePolicy::kTokens) {
    ISOCOST_ASSIGN(BalanceResult divided, divide_by_tokens(input, problem));
    ISOCOST_ASSIGN(division.llm, evaluate(problem, std::move(divided.bins)));
  } else {
    ISOCOST_ASSIGN(division.llm, isocost::balance(problem, balance_options()));
  }
  return division;
}

// Gives each rank one sample; ranks beyond the number of samples repeat one.
Division one_each(const PlanInput& input, const PlanOptions& options) {
  Division division;
  for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
    const auto sample = static_cast<std::size_t>(rank) % input.loads.size();
    division.llm.bins.push_back({static_cast<std::uint32_t>(sample)});
  }
  return division;
}

// Fills in the loads and predictions of a microbatch whose samples are known.
void price(const PlanInput& input, const CostModel& model, PlannedMicrobatch& bin) {
  std::vector<Load> loads;
  for (const PlannedSample& sample : bin.samples) {
    bin.load += input.loads[sample.index];
    loads.push_back(input.loads[sample.index]);
  }
  const std::vector<Load> run = model.as_run(loads);
  for (const Load& sample : run) bin.run_load += sample;
  bin.shape = model.shape_of(run);
  bin.predicted = model.predict_microbatch(bin.run_load, bin.shape);
}

void fill_bins(const PlanInput& input, const BalanceResult& balanced, const CostModel& model,
               StepPlan& plan) {
  std::vector<bool> placed(input.loads.size(), false);
  for (const auto& samples : balanced.bins) {
    PlannedMicrobatch& bin = plan.bins.emplace_back();
    for (const std::uint32_t sample : samples) {
      const bool repeat = placed[sample];
      placed[sample] = true;
      bin.samples.push_back({sample, repeat ? 0.0F : input.weights[sample]});
      if (!repeat && input.weights[sample] > 0) {
        plan.global_label_tokens += static_cast<std::uint64_t>(input.loads[sample].label_tokens);
      }
    }
    price(input, model, bin);
  }
}

void fill_encoder(const PlanInput& input, const CostModel& model, const ServedLayout& layout,
                  const EncoderSlots& slots, StepPlan& plan) {
  const EncoderPartition partition =
      slots.empty() ? coupled_partition(plan, input.loads, layout.encoder_replicas())
                    : decoupled_partition(plan, slots);
  plan.encoder = encoder_microbatches(plan, partition);
  route(input.loads, partition, plan);
  for (auto& replica : plan.encoder) {
    for (PlannedMicrobatch& bin : replica) price(input, model, bin);
  }
}

void add_to(Fingerprint& hash, const PlanInput& input, const PlannedMicrobatch& bin) {
  hash.add(bin.samples.size());
  for (const PlannedSample& sample : bin.samples) {
    hash.add(input.ids[sample.index]);
    hash.add(std::bit_cast<std::uint32_t>(sample.weight));
  }
}

std::uint64_t hash_of(const PlanInput& input, const StepPlan& plan) {
  Fingerprint hash;
  hash.add(plan.microbatches);
  for (const PlannedMicrobatch& bin : plan.bins) add_to(hash, input, bin);
  for (const auto& replica : plan.encoder) {
    hash.add(replica.size());
    for (const PlannedMicrobatch& bin : replica) add_to(hash, input, bin);
  }
  return hash.value();
}

}  // namespace

std::uint32_t microbatches_for(std::int64_t samples, const PlanOptions& options) {
  const std::int64_t wanted =
      (samples * options.microbatches + options.global_batch_size - 1) / options.global_batch_size;
  const std::int64_t possible = samples / options.ranks;
  return static_cast<std::uint32_t>(
      std::max<std::int64_t>(1, std::min({wanted, possible, options.microbatches})));
}

Result<StepPlan> plan_step(const PlanInput& input, const CostModel& model,
                           const PlanOptions& options, const ServedLayout* layout) {
  if (input.loads.empty()) return Error(ErrorCode::kInvalidArgument, "a step without samples");
  StepPlan plan;
  const auto samples = static_cast<std::int64_t>(input.loads.size());
  plan.microbatches = microbatches_for(samples, options);
  Division division;
  if (samples < options.ranks) {
    division = one_each(input, options);
  } else {
    ISOCOST_ASSIGN(division, divide(input, plan.microbatches, model, options, layout));
  }
  fill_bins(input, division.llm, model, plan);
  plan.slowdowns.assign(model.rank_slowdowns().begin(), model.rank_slowdowns().end());
  if (layout != nullptr) {
    plan.layout_receivers = layout->receivers();
    if (layout->has_encoder_ranks()) {
      fill_encoder(input, model, *layout, division.encoder, plan);
    }
  }
  plan.forward_share = forward_share_of(model);
  plan.makespan_s = division.llm.makespan;
  plan.lower_bound_s = division.llm.lower_bound;
  plan.hash = hash_of(input, plan);
  return plan;
}

}  // namespace isocost
