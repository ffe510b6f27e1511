#include "cli/lab/simulate_steps.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "balancer/partition/lookahead.h"
#include "balancer/pipeline/decoupled_plan.h"
#include "base/clock.h"
#include "cli/common/console.h"
#include "cli/common/gib.h"
#include "cli/trace/trace_csv.h"

namespace isocost::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the largest over the mean load, for the module for which it is greater.
double max_over_mean(const std::vector<SampleCost>& loads) {
  double largest_encoder = 0;
  double largest_llm = 0;
  SampleCost sum;
  for (const SampleCost& load : loads) {
    largest_encoder = std::max(largest_encoder, load.encoder_s);
    largest_llm = std::max(largest_llm, load.llm_s);
    sum += load;
  }
  const auto n = static_cast<double>(loads.size());
  const double encoder = sum.encoder_s > 0 ? largest_encoder * n / sum.encoder_s : 1;
  const double llm = sum.llm_s > 0 ? largest_llm * n / sum.llm_s : 1;
  return std::max(encoder, llm);
}

std::vector<SampleCost> loads_of_replicas(const PipelineModel& model,
                                          const std::vector<SampleCost>& loads) {
  std::vector<SampleCost> out(model.llm.replicas);
  for (std::size_t i = 0; i < loads.size(); ++i) out[i / model.microbatches] += loads[i];
  return out;
}

bool keeps(const PipelineReport& report, const ActivationCaps& caps) {
  return std::all_of(report.stages.begin(), report.stages.end(), [&caps](const auto& stage) {
    const std::int64_t cap = stage.encoder ? caps.encoder_bytes : caps.llm_bytes;
    return cap == 0 || stage.peak_activation_bytes <= cap;
  });
}

// Returns the memory of the fullest rank: its stage's activations and the state of its module's
// fullest stage.
double memory_gib(const PipelineReport& report, const RankMemory& state) {
  double most = 0;
  for (const StageReport& stage : report.stages) {
    most = std::max(most, gib(stage.peak_activation_bytes +
                              (stage.encoder ? state.encoder_state : state.llm_state)));
  }
  return most;
}

// Returns the batches that policy cost plans: those of a window are composed together. The last
// window may be smaller.
Result<SampledBatches> composed_batches(const PipelineModel& model, const SampledBatches& batches,
                                        std::size_t lookahead) {
  if (lookahead == 1) return batches;
  SampledBatches out;
  for (std::size_t first = 0; first < batches.size(); first += lookahead) {
    std::vector<SampleCost> window;
    std::vector<std::size_t> sizes;
    for (std::size_t b = first; b < std::min(first + lookahead, batches.size()); ++b) {
      window.insert(window.end(), batches[b].begin(), batches[b].end());
      sizes.push_back(batches[b].size());
    }
    ISOCOST_ASSIGN(const Composition composition, compose_pipeline_batches(model, window, sizes));
    for (const auto& items : composition.batches) {
      auto& batch = out.emplace_back();
      for (const std::uint32_t item : items) batch.push_back(window[item]);
    }
  }
  return out;
}

// Adds one step after another to the results.
class Simulation {
 public:
  Simulation(const SimulateArguments& arguments, const PipelineModel& model,
             const RankMemory& state)
      : arguments_(arguments), model_(model), state_(state) {}

  Status add_step(std::size_t step, const std::vector<SampleCost>& samples,
                  PolicyResult& result) const {
    const PipelineSearchOptions options = options_of(step);
    const auto started = Clock::now();
    ISOCOST_ASSIGN(const PipelinePlan plan, plan_pipeline(model_, samples, result.policy, options));
    const double seconds = seconds_between(started, Clock::now());
    const std::vector<SampleCost> loads = microbatch_loads(samples, plan.bins);
    ISOCOST_ASSIGN(PipelineReport report, simulate(make_step(model_, loads)));
    const auto n = static_cast<double>(arguments_.steps);
    result.step_s += report.step_s / n;
    result.idle_fraction += report.idle_fraction / n;
    result.microbatch_max_over_mean += max_over_mean(loads) / n;
    result.rank_max_over_mean += max_over_mean(loads_of_replicas(model_, loads)) / n;
    result.plan_s += seconds / n;
    result.peak_activation_gib =
        std::max(result.peak_activation_gib, gib(report.peak_activation_bytes()));
    result.memory_gib = std::max(result.memory_gib, memory_gib(report, state_));
    result.bound_s += pipeline_bound(model_, samples) / n;
    result.fits = result.fits && keeps(report, options.caps);
    if (step == 0) result.picture.report = std::move(report);
    return {};
  }

  Status add_decoupled_step(std::size_t step, const std::vector<SampleCost>& samples,
                            DecoupledResult& result) const {
    ISOCOST_ASSIGN(const DecoupledPlan plan,
                   plan_decoupled(model_, samples, PipelinePolicy::kCost, options_of(step)));
    const auto n = static_cast<double>(arguments_.steps);
    result.step_s += plan.step_s / n;
    result.coupled_s += plan.coupled_s / n;
    result.decoupled_steps += plan.decoupled ? 1 : 0;
    return {};
  }

 private:
  PipelineSearchOptions options_of(std::size_t step) const {
    PipelineSearchOptions options = arguments_.order;
    options.seed = arguments_.seed + step;
    return options;
  }

  const SimulateArguments& arguments_;
  const PipelineModel& model_;
  const RankMemory state_;
};

}  // namespace

Result<std::vector<PipelinePolicy>> parse_policies(const std::string& names) {
  std::vector<PipelinePolicy> policies;
  for (const std::string& name : split_list(names)) {
    const auto policy = policy_from_name(name);
    if (!policy) {
      return Error(ErrorCode::kInvalidArgument,
                   "--balance is '" + name + "'; it must be in-order, tokens, lpt or cost");
    }
    policies.push_back(*policy);
  }
  return policies;
}

Result<SimulatedPolicies> simulate_steps(const SimulateArguments& arguments,
                                         const std::vector<PipelinePolicy>& policies,
                                         const JobModel& job, const Layout& layout,
                                         const PipelineModel& model,
                                         const SampledBatches& batches) {
  SimulatedPolicies results;
  for (const PipelinePolicy policy : policies) results.policies.emplace_back().policy = policy;
  SampledBatches drawn = batches;
  for (auto& batch : drawn) {
    for (SampleCost& sample : batch) sample = spread_load(job, layout, sample);
  }
  const ProgressSink progress = progress_bar();
  ISOCOST_ASSIGN(const SampledBatches composed,
                 composed_batches(model, drawn, arguments.lookahead));
  const Simulation simulation(arguments, model, state_memory(job, layout, model));
  for (std::size_t step = 0; step < drawn.size(); ++step) {
    for (PolicyResult& result : results.policies) {
      const bool is_composed = result.policy == PipelinePolicy::kCost;
      ISOCOST_TRY(simulation.add_step(step, (is_composed ? composed : drawn)[step], result));
    }
    if (arguments.decouple) {
      ISOCOST_TRY(simulation.add_decoupled_step(step, composed[step], results.decoupled));
    }
    progress(step + 1, drawn.size(), "simulating steps");
  }
  finish_progress();
  return results;
}

}  // namespace isocost::cli
