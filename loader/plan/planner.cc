#include "loader/plan/planner.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/fingerprint.h"
#include "loader/plan/internal/dummy_media.h"
#include "loader/plan/internal/encoder_partition.h"
#include "loader/plan/internal/padded_plan.h"
#include "loader/plan/microbatch_count.h"
#include "loader/plan/microbatch_limits.h"

namespace isocost {
namespace {

constexpr double kLeastForward =
    0.05;  // share of a forward and backward pass; backward costs at least as much as forward

double forward_share_of(const CostModel& model) {
  return std::clamp(model.forward_share(), kLeastForward, 1 - kLeastForward);
}

// Returns options that keep the exact search of a small step within about 20 ms.
BalanceOptions balance_options() {
  BalanceOptions options;
  options.exact_nodes = 200;
  return options;
}

// Simulator evaluations for the plan of a step. They take about 10 ms, and come within a few per
// mille of what more would find.
constexpr std::int64_t kPipelineEvaluations = 8'000;

BalanceProblem make_problem(const PlanInput& input, std::uint32_t microbatches,
                            const CostModel& model, const PlanOptions& options,
                            const MicrobatchLimits& limits) {
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
  problem.resources = limits.resources();
  for (const Load& load : input.loads) limits.append_room_taken(load, problem.sizes);
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

std::vector<double> llm_tokens(const PlanInput& input) {
  std::vector<double> tokens;
  tokens.reserve(input.loads.size());
  for (const Load& load : input.loads) {
    tokens.push_back(static_cast<double>(load[CostModule::kLlm].units));
  }
  return tokens;
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
  const bool limited = !problem.resources.empty();
  if (options.balance == BalancePolicy::kCost && !limited && !layout.coupled()) {
    ISOCOST_ASSIGN(DecoupledPlan apart,
                   plan_decoupled(pipeline, samples, PipelinePolicy::kCost, order));
    return division_of(std::move(apart.bins), apart.step_s, apart.lower_bound_s,
                       std::move(apart.encoder));
  }
  if (options.balance == BalancePolicy::kCost && limited) {
    // The search against the simulator knows no caps, so the step is first balanced under the caps
    // and then ordered.
    ISOCOST_ASSIGN(BalanceResult balanced, isocost::balance(problem, balance_options()));
    ISOCOST_ASSIGN(plan, order_microbatches(pipeline, samples, balanced.bins, order));
  } else {
    ISOCOST_ASSIGN(plan, plan_pipeline(pipeline, samples, pipeline_policy(options.balance), order));
  }
  return division_of(std::move(plan.bins), plan.step_s, plan.lower_bound_s, {});
}

// Divides the seconds of modules that were measured as they are trained. Returns whether there are
// any.
bool use_measured_passes(const CostProfile& profile, PipelineModel& pipeline) {
  const auto measured = [&profile](CostModule module) {
    return profile.modules.at(static_cast<std::size_t>(module)).forward_share;
  };
  const auto vision = measured(CostModule::kVision);
  const auto encoder = vision ? vision : measured(CostModule::kAudio);
  const auto llm = measured(CostModule::kLlm);
  const auto use = [](double forward, ModuleStages& module) {
    module.passes = module.passes.as_measured(forward);
    for (ChunkPasses& chunk : module.by_chunk) chunk.passes = chunk.passes.as_measured(forward);
  };
  if (encoder) use(*encoder, pipeline.encoder);
  if (llm) use(*llm, pipeline.llm);
  return encoder || llm;
}

Result<Division> divide(const PlanInput& input, std::uint32_t microbatches, const CostModel& model,
                        const PlanOptions& options, const MicrobatchLimits& limits,
                        const ServedLayout* layout) {
  BalanceProblem problem = make_problem(input, microbatches, model, options, limits);
  if (layout != nullptr && layout->pipelined()) {
    const std::vector<SampleCost> samples = pipeline_loads(input, model, *layout);
    PipelineModel pipeline = layout->pipeline(model.rank_slowdowns());
    // One share is measured for all stages, which says nothing of those that are trained unlike.
    const bool alike = pipeline.encoder.passes == pipeline.llm.passes &&
                       pipeline.encoder.by_chunk.empty() && pipeline.llm.by_chunk.empty();
    if (!use_measured_passes(model.profile(), pipeline) && model.forward_measured() && alike) {
      for (ModuleStages* module : {&pipeline.encoder, &pipeline.llm}) {
        module->passes = module->passes.with_forward(forward_share_of(model));
      }
    }
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
    ISOCOST_ASSIGN(BalanceResult divided, lpt_by_tokens(problem, llm_tokens(input)));
    ISOCOST_ASSIGN(division.llm, evaluate(problem, std::move(divided.bins)));
  } else if (model.is_padded(CostModule::kLlm) && (layout == nullptr || !layout->pipelined())) {
    ISOCOST_ASSIGN(division.llm,
                   plan_padded(input.loads, problem, balance_options(), model, limits));
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

std::size_t smallest_sample(const PlanInput& input) {
  const auto smallest = std::min_element(
      input.loads.begin(), input.loads.end(),
      [](const Load& a, const Load& b) { return a.tensor_bytes < b.tensor_bytes; });
  return static_cast<std::size_t>(smallest - input.loads.begin());
}

// Divides with repeats of the smallest sample in the slots that the samples do not fill. The
// repeats are fewer than the ranks, and each is a microbatch of its own.
Result<Division> divide_with_repeats(const PlanInput& input, std::uint32_t microbatches,
                                     const CostModel& model, const PlanOptions& options,
                                     const MicrobatchLimits& limits) {
  const std::size_t slots = static_cast<std::size_t>(options.ranks) * microbatches;
  const std::size_t repeated = smallest_sample(input);
  PlanInput filled{.loads = input.loads, .weights = {}, .ids = {}};
  filled.loads.resize(std::max(slots, input.loads.size()), input.loads[repeated]);
  ISOCOST_ASSIGN(Division division, divide(filled, microbatches, model, options, limits, nullptr));
  for (auto& bin : division.llm.bins) {
    for (std::uint32_t& sample : bin) {
      if (sample >= input.loads.size()) sample = static_cast<std::uint32_t>(repeated);
    }
  }
  return division;
}

// Returns whether a division into this number of microbatches per rank can be used.
using Accepts = std::function<bool(const MicrobatchBins& bins, std::uint32_t microbatches)>;

// Divides the step into as few microbatches as the limits allow and `accepts` takes. Sets
// `microbatches` to their number per rank.
Result<Division> divide_within(const PlanInput& input, const CostModel& model,
                               const PlanOptions& options, const MicrobatchLimits& limits,
                               const ServedLayout* layout, const Accepts& accepts,
                               std::uint32_t& microbatches) {
  const MicrobatchRange range = microbatch_range(input.loads, model, options, limits, layout);
  for (microbatches = range.first;; ++microbatches) {
    const bool fills = input.loads.size() >= static_cast<std::size_t>(options.ranks) * microbatches;
    Result<Division> division =
        fills ? divide(input, microbatches, model, options, limits, layout)
              : divide_with_repeats(input, microbatches, model, options, limits);
    // A pipeline's division ignores padding, so the limits are checked again.
    const bool full = division ? (model.is_padded(CostModule::kLlm) &&
                                  !keeps_limits(input.loads, division->llm.bins, model, limits)) ||
                                     !accepts(division->llm.bins, microbatches)
                               : division.error().code() == ErrorCode::kResourceExhausted;
    if (!full || limits.empty()) return division;
    if (microbatches < range.last) continue;
    return limits.too_full(input.loads, static_cast<std::size_t>(options.ranks) * microbatches);
  }
}

std::vector<SampleOverLimit> samples_over_limit(const PlanInput& input,
                                                const MicrobatchLimits& limits) {
  std::vector<SampleOverLimit> found;
  for (std::size_t i = 0; i < input.loads.size(); ++i) {
    if (auto reason = limits.why_too_large(input.loads[i])) {
      found.push_back({static_cast<std::uint32_t>(i), *std::move(reason)});
    }
  }
  return found;
}

// Fills in the loads and predictions of a microbatch whose samples and dummies are set.
void price(const PlanInput& input, const CostModel& model, const StepPlan& plan,
           PlannedMicrobatch& bin) {
  std::vector<Load> loads;
  std::vector<Load> dummies;
  loads.reserve(bin.samples.size());
  dummies.reserve(bin.dummies.size());
  for (const PlannedSample& sample : bin.samples) loads.push_back(input.loads[sample.index]);
  for (const std::uint32_t dummy : bin.dummies) dummies.push_back(plan.dummies[dummy].load);
  for (const Load& load : loads) bin.load += load;
  for (const Load& load : dummies) bin.load += load;
  const bool padded = model.is_padded(CostModule::kLlm);
  const std::vector<Load> run = model.as_run(with_dummies(std::move(loads), dummies, padded));
  for (const Load& sample : run) bin.run_load += sample;
  bin.shape = model.shape_of(run);
  bin.predicted = model.predict_microbatch(bin.run_load, bin.shape);
}

void fill_bins(const PlanInput& input, const BalanceResult& balanced, StepPlan& plan) {
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
    for (PlannedMicrobatch& bin : replica) price(input, model, plan, bin);
  }
}

void add_to(Fingerprint& hash, const PlanInput& input, const StepPlan& plan,
            const PlannedMicrobatch& bin) {
  hash.add(bin.samples.size() + bin.dummies.size());
  for (const PlannedSample& sample : bin.samples) {
    hash.add(input.ids[sample.index]);
    hash.add(std::bit_cast<std::uint32_t>(sample.weight));
  }
  for (const std::uint32_t dummy : bin.dummies) {
    hash.add(static_cast<std::uint64_t>(plan.dummies[dummy].modality));
  }
}

std::uint64_t hash_of(const PlanInput& input, const StepPlan& plan) {
  Fingerprint hash;
  hash.add(plan.microbatches);
  for (const PlannedMicrobatch& bin : plan.bins) add_to(hash, input, plan, bin);
  for (const auto& replica : plan.encoder) {
    hash.add(replica.size());
    for (const PlannedMicrobatch& bin : replica) add_to(hash, input, plan, bin);
  }
  return hash.value();
}

// Divides the step into microbatches that keep the limits, with room for dummies if it can be
// had. Sets `microbatches` to their number per rank.
Result<Division> divide_step(const PlanInput& input, const CostModel& model,
                             const PlanOptions& options, const MicrobatchLimits& limits,
                             const DummyMedia& dummies, const ServedLayout* layout,
                             std::uint32_t& microbatches) {
  if (std::ssize(input.loads) < options.ranks) return one_each(input, options);
  if (!dummies.empty() && !limits.empty()) {
    const auto leaves_room = [&](const MicrobatchBins& bins, std::uint32_t per_rank) {
      return dummies.keep_limits(bins, per_rank, model, limits);
    };
    Result<Division> division = divide_within(input, model, options, limits.without(dummies.load()),
                                              layout, leaves_room, microbatches);
    if (division || division.error().code() != ErrorCode::kResourceExhausted) return division;
  }
  const auto any = [](const MicrobatchBins&, std::uint32_t) { return true; };
  return divide_within(input, model, options, limits, layout, any, microbatches);
}

}  // namespace

Result<StepPlan> plan_step(const PlanInput& input, const CostModel& model,
                           const PlanOptions& options, const ServedLayout* layout) {
  if (input.loads.empty()) return Error(ErrorCode::kInvalidArgument, "a step without samples");
  ISOCOST_ASSIGN(const auto limits, MicrobatchLimits::create(options, model.profile()));
  StepPlan plan;
  plan.over_limit = samples_over_limit(input, limits);
  const DummyMedia dummies(input, options);
  ISOCOST_ASSIGN(const Division division,
                 divide_step(input, model, options, limits, dummies, layout, plan.microbatches));
  fill_bins(input, division.llm, plan);
  dummies.add_to(plan);
  for (PlannedMicrobatch& bin : plan.bins) price(input, model, plan, bin);
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
