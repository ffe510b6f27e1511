// Planning time and quality. Every plan is checked before it is timed. The counters are the gap to
// the lower bound and the number of plans that are proved optimal.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/quality/workload.h"

namespace {

using isocost::BalanceOptions;
using isocost::BalanceProblem;
using isocost::BalanceResult;
using isocost::Objective;
using isocost::TraceMixture;

constexpr std::uint64_t kSeeds = 10;

const char* fault(const BalanceProblem& problem, const BalanceResult& result) {
  std::vector<bool> seen(problem.items(), false);
  std::size_t placed = 0;
  for (const auto& bin : result.bins) {
    if (bin.empty()) return "an empty microbatch";
    for (const std::uint32_t item : bin) {
      if (seen[item]) return "a sample twice";
      seen[item] = true;
      ++placed;
    }
  }
  if (placed != problem.items()) return "a sample lost";
  return result.makespan < result.lower_bound * (1 - 1e-12) ? "a makespan below its bound"
                                                            : nullptr;
}

/// One iteration plans kSeeds problems. The time is per plan.
void plan(benchmark::State& state, const std::string& name, Objective objective,
          std::int64_t rounds = BalanceOptions{}.improvement_rounds) {
  const auto mixture = isocost::load_mixture(name, ISOCOST_QUALITY_DATA);
  if (!mixture) return state.SkipWithError(mixture.error().to_string().c_str());
  const auto items = static_cast<std::size_t>(state.range(0));
  const auto ranks = static_cast<std::size_t>(state.range(1));
  const auto microbatches = static_cast<std::size_t>(state.range(2));
  std::vector<BalanceProblem> problems;
  const BalanceOptions options{.improvement_rounds = rounds};
  double gap = 0;
  double largest_gap = 0;
  double optimal = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    problems.push_back(draw_problem(*mixture, objective, items, ranks, microbatches, 0, seed));
    const auto result = balance(problems.back(), options);
    if (!result) return state.SkipWithError(result.error().to_string().c_str());
    if (const char* wrong = fault(problems.back(), *result)) return state.SkipWithError(wrong);
    gap += result->gap() / kSeeds;
    largest_gap = std::max(largest_gap, result->gap());
    optimal += result->optimal ? 1 : 0;
  }
  for (auto step : state) {
    for (const BalanceProblem& problem : problems) {
      benchmark::DoNotOptimize(balance(problem, options));
    }
  }
  state.counters["gap_%"] = 100 * std::max(gap, 0.0);
  state.counters["max_gap_%"] = 100 * std::max(largest_gap, 0.0);
  state.counters["optimal_of_10"] = optimal;
  state.counters["per_plan"] = benchmark::Counter(
      kSeeds, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"samples", "ranks", "microbatches"})
      ->Args({512, 8, 8})
      ->Args({2048, 32, 8})
      ->Args({4096, 1024, 1})
      ->Args({4096, 1024, 4})
      ->Args({16384, 256, 8})
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(plan, documents_microbatch, "documents", Objective::kLargestMicrobatch)
    ->Apply(sizes);
BENCHMARK_CAPTURE(plan, documents_rank, "documents", Objective::kSlowestRank)->Apply(sizes);
BENCHMARK_CAPTURE(plan, mixed_microbatch, "mixed", Objective::kLargestMicrobatch)->Apply(sizes);
BENCHMARK_CAPTURE(plan, mixed_microbatch_effort_100, "mixed", Objective::kLargestMicrobatch, 100)
    ->Args({16384, 256, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, mixed_microbatch_effort_200, "mixed", Objective::kLargestMicrobatch, 200)
    ->Args({16384, 256, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan, mixed_rank, "mixed", Objective::kSlowestRank)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
