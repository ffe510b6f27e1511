// Cost of metrics by the number of ranks: counting a report, and writing the pages /metrics and
// /status.json. The status is read back before it is timed.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "loader/metrics/prometheus_text.h"
#include "loader/metrics/status_json.h"
#include "loader/node/internal/training_meter.h"

namespace {

using namespace isocost;

constexpr std::uint32_t kMicrobatches = 4;

StepPlan plan_for(std::size_t ranks) {
  StepPlan plan;
  plan.microbatches = kMicrobatches;
  plan.bins.resize(ranks * kMicrobatches);
  for (PlannedMicrobatch& bin : plan.bins) {
    bin.samples.emplace_back();
    for (ModuleLoad& module : bin.load.modules) module.add_sequence(256);
    bin.predicted = {0.1, 0.2, 0.3};
  }
  return plan;
}

void take_step(TrainingMeter& meter, const StepPlan& plan, std::uint32_t step) {
  const auto ranks = static_cast<std::int32_t>(plan.bins.size() / kMicrobatches);
  Report report;
  report.seconds = {0.11, 0.21, 0.31};
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
      report.position = {0, step, m};
      meter.reported({1, 0, step}, rank, report, plan);
    }
  }
}

void take_reports(benchmark::State& state) {
  const StepPlan plan = plan_for(static_cast<std::size_t>(state.range(0)));
  TrainingMeter meter;
  std::uint32_t step = 0;
  for (auto _ : state) take_step(meter, plan, step++);
  if (meter.totals().measured_steps != step) std::abort();
  state.counters["s/report"] = benchmark::Counter(
      static_cast<double>(plan.bins.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(take_reports)->Arg(8)->Arg(1024);

NodeMetrics metrics_of(std::size_t ranks) {
  TrainingMeter meter;
  const StepPlan plan = plan_for(ranks);
  meter.planned(plan);
  take_step(meter, plan, 0);
  NodeMetrics metrics;
  metrics.uptime_s = 1;
  metrics.training = meter.totals();
  return metrics;
}

void write_text(benchmark::State& state) {
  const NodeMetrics metrics = metrics_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(prometheus_text(metrics));
  state.counters["bytes"] = static_cast<double>(prometheus_text(metrics).size());
}
BENCHMARK(write_text)->Arg(8)->Arg(1024)->Arg(10'000)->Unit(benchmark::kMillisecond);

void copy_totals(benchmark::State& state) {
  TrainingMeter meter;
  meter.planned(plan_for(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(meter.totals());
}
BENCHMARK(copy_totals)->Arg(8)->Arg(1024)->Arg(10'000)->Unit(benchmark::kMicrosecond);

void write_status(benchmark::State& state) {
  const NodeMetrics metrics = metrics_of(static_cast<std::size_t>(state.range(0)));
  const std::string text = status_json(metrics);
  const auto read = parse_status(text);
  if (!read || read->training.ranks != metrics.training.ranks) std::abort();
  for (auto _ : state) benchmark::DoNotOptimize(status_json(metrics));
  state.counters["bytes"] = static_cast<double>(text.size());
}
BENCHMARK(write_status)->Arg(8)->Arg(1024)->Arg(10'000)->Unit(benchmark::kMillisecond);

void read_status(benchmark::State& state) {
  const std::string text = status_json(metrics_of(static_cast<std::size_t>(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(parse_status(text));
}
BENCHMARK(read_status)->Arg(8)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
