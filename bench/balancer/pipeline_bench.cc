// Times of the pipeline simulator, of planning with it, and of the layout search. The counters
// compare the decisions. Every result is checked before it is timed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "balancer/layout/layout_search.h"
#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/pipeline_plan.h"
#include "base/random.h"
#include "bench/quality/workload.h"
#include "costmodel/sample_cost.h"

namespace {

using isocost::PipelinePolicy;
using isocost::SampleCost;

// The job of `isocost-lab simulate` without flags, which fits GPUs of 80 GiB.
isocost::Layout eight_by_eight() {
  return {.encoder = {4, 2, 8}, .llm = {4, 6, 8}, .microbatches = 16};
}

std::vector<SampleCost> draw(const isocost::TraceMixture& mixture, std::size_t items,
                             std::uint64_t seed) {
  const isocost::SamplePrices prices(isocost::CostProfile::stated_default());
  isocost::Random random(seed);
  std::uint64_t total = 0;
  for (const std::uint64_t weight : mixture.weights) total += weight;
  std::vector<SampleCost> samples;
  for (std::size_t i = 0; i < items; ++i) {
    std::uint64_t ticket = random.below(total);
    std::size_t trace = 0;
    while (ticket >= mixture.weights[trace]) ticket -= mixture.weights[trace++];
    const auto& row = mixture.traces[trace][random.below(mixture.traces[trace].size())];
    samples.push_back(
        prices.of(isocost::load_of_counts(static_cast<std::int64_t>(row.encoder_patches),
                                          static_cast<std::int64_t>(row.llm_tokens))));
  }
  return samples;
}

std::vector<SampleCost> draw_spread(const isocost::TraceMixture& mixture, std::size_t items,
                                    std::uint64_t seed) {
  std::vector<SampleCost> samples = draw(mixture, items, seed);
  for (SampleCost& sample : samples) {
    sample = spread_load(isocost::JobModel{}, eight_by_eight(), sample);
  }
  return samples;
}

void simulate_step(benchmark::State& state) {
  const isocost::JobModel job;
  const auto model = make_pipeline(job, eight_by_eight(), {});
  const auto mixture = isocost::load_mixture("mixed", ISOCOST_QUALITY_DATA);
  if (!model || !mixture) return state.SkipWithError("no model or no traces");
  const auto step = make_step(*model, draw_spread(*mixture, model->slots(), 1));
  const auto report = simulate(step);
  if (!report || report->events.size() != 8 * 8 * 16 * 2) return state.SkipWithError("wrong step");
  for (auto turn : state) benchmark::DoNotOptimize(simulate(step));
}
BENCHMARK(simulate_step)->Unit(benchmark::kMicrosecond);

void plan_step(benchmark::State& state, const std::string& name) {
  constexpr std::uint64_t kSeeds = 5;
  const isocost::JobModel job;
  const auto model = make_pipeline(job, eight_by_eight(), {});
  const auto mixture = isocost::load_mixture(name, ISOCOST_QUALITY_DATA);
  if (!model || !mixture) return state.SkipWithError("no model or no traces");
  std::vector<std::vector<SampleCost>> batches;
  double in_order_over = 0;
  double lpt_over = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    batches.push_back(draw_spread(*mixture, static_cast<std::size_t>(state.range(0)), seed));
    std::vector<double> steps;
    for (const PipelinePolicy policy :
         {PipelinePolicy::kInOrder, PipelinePolicy::kLpt, PipelinePolicy::kCost}) {
      const auto plan = plan_pipeline(*model, batches.back(), policy, {.seed = seed});
      if (!plan || plan->step_s < plan->lower_bound_s) return state.SkipWithError("wrong plan");
      steps.push_back(plan->step_s);
    }
    in_order_over += steps[0] / steps[2] / kSeeds;
    lpt_over += steps[1] / steps[2] / kSeeds;
  }
  std::size_t turn = 0;
  for (auto one : state) {
    benchmark::DoNotOptimize(
        plan_pipeline(*model, batches[turn++ % kSeeds], PipelinePolicy::kCost, {}));
  }
  state.counters["over_in_order"] = in_order_over;
  state.counters["over_lpt"] = lpt_over;
}
BENCHMARK_CAPTURE(plan_step, mixed, "mixed")->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_step, documents, "documents")->Arg(512)->Unit(benchmark::kMillisecond);

/// Layouts of 64 GPUs whose modules have different degrees. `fits`: coupled plans fit 80 GiB.
struct UnequalLayout {
  const char* name;
  isocost::Layout layout;
  bool fits = true;
};
std::vector<UnequalLayout> unequal_layouts() {
  return {{"2x1x6+4x1x13", {.encoder = {2, 1, 6}, .llm = {4, 1, 13}, .microbatches = 16}},
          {"1x1x12+4x1x13", {.encoder = {1, 1, 12}, .llm = {4, 1, 13}, .microbatches = 16}},
          {"2x1x8+4x2x6", {.encoder = {2, 1, 8}, .llm = {4, 2, 6}, .microbatches = 16}},
          {"4x1x4+2x3x8", {.encoder = {4, 1, 4}, .llm = {2, 3, 8}, .microbatches = 16}},
          {"1x1x16+2x3x8", {.encoder = {1, 1, 16}, .llm = {2, 3, 8}, .microbatches = 32}},
          {"1x2x8+4x3x4", {.encoder = {1, 2, 8}, .llm = {4, 3, 4}, .microbatches = 32}},
          {"1x1x16+2x4x6", {.encoder = {1, 1, 16}, .llm = {2, 4, 6}, .microbatches = 32}},
          {"1x1x8+2x7x4", {.encoder = {1, 1, 8}, .llm = {2, 7, 4}, .microbatches = 16}, false},
          {"1x1x8+2x7x4-m32", {.encoder = {1, 1, 8}, .llm = {2, 7, 4}, .microbatches = 32}, false}};
}

std::vector<std::vector<SampleCost>> unequal_batches(const isocost::JobModel& job,
                                                     const isocost::TraceMixture& mixture,
                                                     const UnequalLayout& unequal,
                                                     SampleCost& mean) {
  constexpr std::uint64_t kSeeds = 8;
  std::vector<std::vector<SampleCost>> batches;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    auto& batch = batches.emplace_back(draw(mixture, 512, seed));
    for (const SampleCost& sample : batch) mean += sample;
    for (SampleCost& sample : batch) sample = spread_load(job, unequal.layout, sample);
  }
  for (double* part : {&mean.encoder_s, &mean.llm_s, &mean.encoder_units, &mean.llm_units}) {
    *part /= static_cast<double>(512 * kSeeds);
  }
  return batches;
}

/// Mean steps of plans of the same batches with the same budget.
struct Comparison {
  double coupled_s = 0;
  double decoupled_s = 0;
  double bound_s = 0;
  bool fits = true;
};

isocost::Result<Comparison> compare_plans(const isocost::PipelineModel& model,
                                          const std::vector<std::vector<SampleCost>>& batches,
                                          isocost::PipelineSearchOptions order) {
  Comparison result;
  const auto n = static_cast<double>(batches.size());
  for (const auto& batch : batches) {
    ISOCOST_ASSIGN(const auto plan, plan_decoupled(model, batch, PipelinePolicy::kCost, order));
    const auto step = plan.decoupled ? make_step(model, batch, plan.bins, plan.encoder)
                                     : make_step(model, microbatch_loads(batch, plan.bins));
    ISOCOST_ASSIGN(const auto report, simulate(step));
    if (std::abs(report.step_s / plan.step_s - 1) > 1e-9 || plan.step_s < plan.lower_bound_s) {
      return isocost::Error(isocost::ErrorCode::kInternal, "wrong plan");
    }
    result.coupled_s += plan.coupled_s / n;
    result.decoupled_s += plan.step_s / n;
    result.bound_s += plan.lower_bound_s / n;
    result.fits = result.fits && plan.fits;
    order.seed += 1;
  }
  return result;
}

// Compares decoupled with coupled plans, for encoders that run 0, 1 or 2 microbatches further
// ahead. `over_N`: coupled over decoupled seconds if both run N ahead; `best_over`: the same with
// the best N of each; `over_bound`: the best decoupled seconds over the bound. The time is that of
// a node's step: a decoupled plan, which includes the coupled one.
void decouple(benchmark::State& state, const UnequalLayout& unequal) {
  const isocost::JobModel job;
  const auto mixture = isocost::load_mixture("mixed", ISOCOST_QUALITY_DATA);
  if (!mixture) return state.SkipWithError("no traces");
  SampleCost mean;
  const auto batches = unequal_batches(job, *mixture, unequal, mean);
  const auto model = make_pipeline(job, unequal.layout, mean);
  if (!model) return state.SkipWithError(model.error().message().c_str());
  isocost::PipelineSearchOptions order{.evaluations = state.range(0),
                                       .exchanges = state.range(0) / 32};
  if (unequal.fits) {
    order.caps = activation_caps(job, state_memory(job, unequal.layout, *model), 0.9);
  }
  Comparison best{.coupled_s = 1e9, .decoupled_s = 1e9};
  for (std::size_t ahead = 0; ahead <= 2; ++ahead) {
    isocost::PipelineModel further = *model;
    further.encoder_ahead = ahead;
    const auto found = compare_plans(further, batches, order);
    if (!found) return state.SkipWithError(found.error().message().c_str());
    if (!found->fits) continue;
    state.counters["over_" + std::to_string(ahead)] = found->coupled_s / found->decoupled_s;
    best.coupled_s = std::min(best.coupled_s, found->coupled_s);
    best.decoupled_s = std::min(best.decoupled_s, found->decoupled_s);
    best.bound_s = found->bound_s;
  }
  std::size_t turn = 0;
  for (auto one : state) {
    benchmark::DoNotOptimize(
        plan_decoupled(*model, batches[turn++ % batches.size()], PipelinePolicy::kCost, order));
  }
  state.counters["best_over"] = best.coupled_s / best.decoupled_s;
  state.counters["over_bound"] = best.decoupled_s / best.bound_s;
  state.counters["step_s"] = best.decoupled_s;
}

// Compares the chosen layout with that of the mean-shape rule, on batches that the search has not
// seen.
void search(benchmark::State& state) {
  const isocost::JobModel job;
  const auto mixture = isocost::load_mixture("mixed", ISOCOST_QUALITY_DATA);
  if (!mixture) return state.SkipWithError("no traces");
  std::vector<std::vector<SampleCost>> batches;
  std::vector<std::vector<SampleCost>> fresh;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    batches.push_back(draw(*mixture, 512, seed));
    fresh.push_back(draw(*mixture, 512, 100 + seed));
  }
  isocost::LayoutSearchOptions options;
  options.gpus = static_cast<std::size_t>(state.range(0));
  const auto executor = isocost::make_executor(2);
  isocost::LayoutSearchContext context;
  context.executor = executor.get();
  const auto found = search_layouts(job, batches, options, context);
  if (!found) return state.SkipWithError(found.error().message().c_str());
  const auto score = [&](const isocost::LayoutScore& of) {
    const auto again = score_layout(job, of.layout, fresh, options, options.evaluations);
    return again ? again->step_s : 0.0;
  };
  const double best = score(found->best.front());
  if (found->mean_shape) state.counters["mean_shape_over"] = score(*found->mean_shape) / best;
  if (found->alike) state.counters["alike_over"] = score(*found->alike) / best;
  for (auto turn : state) {
    benchmark::DoNotOptimize(search_layouts(job, batches, options, context));
  }
}
BENCHMARK(search)->Arg(64)->Arg(1024)->Unit(benchmark::kSecond)->UseRealTime()->Iterations(1);

}  // namespace

int main(int argc, char** argv) {
  for (const UnequalLayout& unequal : unequal_layouts()) {
    const std::string name = std::string("decouple/").append(unequal.name);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [unequal](benchmark::State& state) { decouple(state, unequal); })
        ->Arg(32'000)
        ->Arg(8'000)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
