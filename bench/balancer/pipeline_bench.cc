// Speed of the pipeline simulator, of planning against it, and of the layout search; counters say
// what the decisions are worth. Answers are checked before they are timed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "balancer/layout_search.h"
#include "balancer/order.h"
#include "balancer/sample_prices.h"
#include "base/random.h"
#include "bench/quality/workload.h"

namespace {

using isocost::PipelineLoad;
using isocost::PipelinePolicy;

// The job of `isocost simulate` without flags: it fits GPUs of 80 GiB.
isocost::Layout eight_by_eight() {
  return {.encoder = {4, 2, 8}, .llm = {4, 6, 8}, .microbatches = 16};
}

std::vector<PipelineLoad> draw(const isocost::Mixture& mixture, std::size_t items,
                               std::uint64_t seed) {
  const isocost::SamplePrices prices(isocost::CostProfile::stated_default());
  isocost::Random random(seed);
  std::uint64_t total = 0;
  for (const std::uint64_t weight : mixture.weights) total += weight;
  std::vector<PipelineLoad> samples;
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

std::vector<PipelineLoad> draw_spread(const isocost::Mixture& mixture, std::size_t items,
                                      std::uint64_t seed) {
  std::vector<PipelineLoad> samples = draw(mixture, items, seed);
  for (PipelineLoad& sample : samples) {
    sample = spread_load(isocost::JobModel{}, eight_by_eight(), sample);
  }
  return samples;
}

void simulate_step(benchmark::State& state) {
  const isocost::JobModel job;
  const auto model = make_pipeline(job, eight_by_eight(), {});
  const auto mixture = isocost::load_mixture("mixed", ISOCOST_QUALITY_DATA);
  if (!model || !mixture) return state.SkipWithError("no model or no traces");
  const auto step = make_step(*model, draw_spread(*mixture, model->places(), 1));
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
  std::vector<std::vector<PipelineLoad>> batches;
  double blind_over = 0;
  double greedy_over = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    batches.push_back(draw_spread(*mixture, static_cast<std::size_t>(state.range(0)), seed));
    double steps[3] = {};
    for (const PipelinePolicy policy :
         {PipelinePolicy::kBlind, PipelinePolicy::kGreedy, PipelinePolicy::kIsocost}) {
      const auto plan = plan_pipeline(*model, batches.back(), policy, {.seed = seed});
      if (!plan || plan->step_s < plan->lower_bound_s) return state.SkipWithError("wrong plan");
      steps[static_cast<std::size_t>(policy)] = plan->step_s;
    }
    blind_over += steps[0] / steps[2] / kSeeds;
    greedy_over += steps[1] / steps[2] / kSeeds;
  }
  std::size_t turn = 0;
  for (auto one : state) {
    benchmark::DoNotOptimize(
        plan_pipeline(*model, batches[turn++ % kSeeds], PipelinePolicy::kIsocost, {}));
  }
  state.counters["over_blind"] = blind_over;
  state.counters["over_greedy"] = greedy_over;
}
BENCHMARK_CAPTURE(plan_step, mixed, "mixed")->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_step, documents, "documents")->Arg(512)->Unit(benchmark::kMillisecond);

// The chosen layout beside the mean-shape rule's, on batches that the search has not seen.
void search(benchmark::State& state) {
  const isocost::JobModel job;
  const auto mixture = isocost::load_mixture("mixed", ISOCOST_QUALITY_DATA);
  if (!mixture) return state.SkipWithError("no traces");
  std::vector<std::vector<PipelineLoad>> batches;
  std::vector<std::vector<PipelineLoad>> fresh;
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

BENCHMARK_MAIN();
