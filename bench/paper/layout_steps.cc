#include "bench/paper/layout_steps.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "balancer/pipeline/decoupled_plan.h"
#include "base/random.h"
#include "base/units.h"

namespace isocost::paper {
namespace {

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

/// Seconds before a stage's first pass and after its last one, of a microbatch of one sample.
struct Ends {
  double fill = 0;
  double drain = 0;
};

// Returns the seconds after which a stage has returned the gradients of its inputs.
double backward_seconds(const PipelineModel& model, const StagePass& pass) {
  return pass.backward_s + (model.schedule == Schedule::kZbH1 ? 0 : pass.weights_s);
}

// Returns the passes of the stages that precede the LLM's stage `stage`, and of the encoder's own.
Ends ends_of_llm_stage(const PipelineModel& model, const SampleCost& sample, std::size_t stage) {
  Ends ends;
  const auto add = [&](std::span<const StagePass> passes) {
    for (const StagePass& pass : passes) {
      ends.fill += pass.forward_s;
      ends.drain += backward_seconds(model, pass);
    }
  };
  std::vector<StagePass> llm(model.llm.stages * model.llm.chunks);
  llm_passes(model, sample, llm);
  add(std::span(llm).first(stage));
  if (model.encoder.stages > 0 && sample.encoder_units > 0) {
    std::vector<StagePass> encoder(model.encoder.stages);
    encoder_passes(model, sample, encoder);
    add(encoder);
  }
  return ends;
}

Ends ends_of_encoder_stage(const PipelineModel& model, const SampleCost& sample,
                           std::size_t stage) {
  Ends ends;
  if (sample.encoder_units == 0) return ends;
  std::vector<StagePass> passes(model.encoder.stages);
  encoder_passes(model, sample, passes);
  for (std::size_t s = 0; s < stage; ++s) {
    ends.fill += passes[s].forward_s;
    ends.drain += backward_seconds(model, passes[s]);
  }
  return ends;
}

// Returns the mean of the `replicas` smallest values.
double mean_of_smallest(std::vector<double> values, std::size_t replicas) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(std::min(replicas, values.size()));
  std::partial_sort(values.begin(), middle, values.end());
  double sum = 0;
  for (auto value = values.begin(); value != middle; ++value) sum += *value;
  return sum / static_cast<double>(replicas);
}

// Returns fill plus drain of the replicas' mean, of `ends_of(sample)`.
template <typename EndsOf>
double least_ends(std::span<const SampleCost> samples, std::size_t replicas, EndsOf ends_of) {
  std::vector<double> fills;
  std::vector<double> drains;
  for (const SampleCost& sample : samples) {
    const Ends ends = ends_of(sample);
    fills.push_back(ends.fill);
    drains.push_back(ends.drain);
  }
  return mean_of_smallest(std::move(fills), replicas) +
         mean_of_smallest(std::move(drains), replicas);
}

}  // namespace

Layout whole_model(std::size_t gpus, std::size_t microbatches, std::size_t shard) {
  const ModuleDegrees degrees{.tensor = 1, .pipeline = 1, .data = gpus, .shard = shard};
  return {.encoder_place = EncoderPlacement::kLlmRanks,
          .encoder = degrees,
          .llm = degrees,
          .microbatches = microbatches};
}

LayoutSteps::LayoutSteps(const JobModel& job, const Layout& layout, PipelineModel model,
                         RankMemory state)
    : job_(job), layout_(layout), model_(std::move(model)), state_(state) {}

Result<LayoutSteps> LayoutSteps::create(const JobModel& job, const Layout& layout,
                                        const SampleCost& mean) {
  ISOCOST_ASSIGN(PipelineModel model, make_pipeline(job, layout, mean));
  const RankMemory state = state_memory(job, layout, model);
  return LayoutSteps(job, layout, std::move(model), state);
}

std::vector<SampleCost> LayoutSteps::spread(std::span<const SampleCost> samples) const {
  std::vector<SampleCost> costs;
  costs.reserve(samples.size());
  for (const SampleCost& sample : samples) costs.push_back(spread_load(job_, layout_, sample));
  return costs;
}

Result<Step> LayoutSteps::simulated(const PipelineStep& step) const {
  ISOCOST_ASSIGN(const PipelineReport report, simulate(step));
  Step result{.seconds = report.step_s, .idle_fraction = report.idle_fraction};
  for (const StageReport& stage : report.stages) {
    const std::int64_t state = stage.encoder ? state_.encoder_state : state_.llm_state;
    result.memory_gib = std::max(result.memory_gib, gib(state + stage.peak_activation_bytes));
  }
  return result;
}

Result<Step> LayoutSteps::random(std::span<const SampleCost> samples) const {
  const std::vector<SampleCost> costs = spread(samples);
  ISOCOST_ASSIGN(const PipelinePlan plan,
                 plan_pipeline(model_, costs, PipelinePolicy::kInOrder, {}));
  return simulated(make_step(model_, microbatch_loads(costs, plan.bins)));
}

Result<Step> LayoutSteps::given(std::span<const SampleCost> samples,
                                const MicrobatchBins& bins) const {
  const std::vector<SampleCost> costs = spread(samples);
  // Checks the bins.
  ISOCOST_TRY(evaluate_microbatches(model_, costs, bins, {}));
  return simulated(make_step(model_, microbatch_loads(costs, bins)));
}

PipelineSearchOptions LayoutSteps::options(std::int64_t evaluations, std::uint64_t seed) const {
  return {.evaluations = evaluations,
          .exchanges = evaluations / 8,
          .caps = activation_caps(job_, state_, kUsableMemory),
          .seed = seed};
}

Result<MicrobatchBins> LayoutSteps::coupled(std::span<const SampleCost> samples,
                                            std::int64_t evaluations, std::uint64_t seed) const {
  ISOCOST_ASSIGN(PipelinePlan plan, plan_pipeline(model_, spread(samples), PipelinePolicy::kCost,
                                                  options(evaluations, seed)));
  return std::move(plan.bins);
}

Result<Step> LayoutSteps::ours(std::span<const SampleCost> samples, std::int64_t evaluations,
                               std::uint64_t seed) const {
  const std::vector<SampleCost> costs = spread(samples);
  const std::clock_t started = std::clock();
  ISOCOST_ASSIGN(const DecoupledPlan plan,
                 plan_decoupled(model_, costs, PipelinePolicy::kCost, options(evaluations, seed)));
  const std::clock_t spent = std::clock() - started;
  const PipelineStep step = plan.decoupled ? make_step(model_, costs, plan.bins, plan.encoder)
                                           : make_step(model_, microbatch_loads(costs, plan.bins));
  ISOCOST_ASSIGN(Step result, simulated(step));
  result.plan_s = static_cast<double>(spent) / CLOCKS_PER_SEC;
  return result;
}

double LayoutSteps::bound(std::span<const SampleCost> samples) const {
  const std::vector<SampleCost> costs = spread(samples);
  double encoder_s = 0;
  double llm_s = static_cast<double>(model_.slots()) * model_.llm.beside_samples_s();
  for (const SampleCost& cost : costs) {
    encoder_s += cost.encoder_s;
    llm_s += cost.llm_s;
  }
  const auto replicas = static_cast<double>(model_.llm.replicas);
  // Weights are gathered before the first pass, and gradients reduced after the last one: those of
  // the encoder, or of the LLM for microbatches without media.
  double exposed = model_.llm.transfers.least_exposed_s();
  if (model_.encoder.stages > 0) {
    exposed = std::min(exposed, model_.encoder.transfers.least_exposed_s());
  }
  double bound = 0;
  for (std::size_t stage = 0; stage < model_.llm.stages; ++stage) {
    double work = llm_s * model_.llm.shares[stage];
    if (!model_.encoder_on_llm.empty()) work += encoder_s * model_.encoder_on_llm[stage];
    const double ends =
        least_ends(costs, model_.llm.replicas, [this, stage](const SampleCost& sample) {
          return ends_of_llm_stage(model_, sample, stage);
        });
    bound = std::max(bound, work / replicas + ends + exposed);
  }
  for (std::size_t stage = 0; stage < model_.encoder.stages; ++stage) {
    const double work =
        encoder_s * model_.encoder.shares[stage] / static_cast<double>(model_.encoder.replicas);
    const double ends =
        least_ends(costs, model_.encoder.replicas, [this, stage](const SampleCost& sample) {
          return ends_of_encoder_stage(model_, sample, stage);
        });
    bound = std::max(bound, work + ends + model_.encoder.transfers.least_exposed_s());
  }
  // The project's own bound counts every module's transfers, and no fill or drain.
  return std::max(bound, pipeline_bound(model_, costs));
}

bool LayoutSteps::fits(const Step& step) const {
  return step.memory_gib <= kUsableMemory * gib(job_.cluster.gpu_memory);
}

Batches draw(std::span<const Load> loads, const CostProfile& profile, std::size_t count,
             std::size_t size, std::uint64_t seed) {
  const SamplePrices prices(profile);
  Random random(seed);
  Batches batches(count);
  for (auto& batch : batches) {
    for (std::size_t i = 0; i < size; ++i) {
      batch.push_back(prices.of(loads[random.below(loads.size())]));
    }
  }
  return batches;
}

SampleCost mean_of(const Batches& batches) {
  std::vector<SampleCost> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return mean(all);
}

}  // namespace isocost::paper
