// Times the prediction of one sample, and the correction by a step of 64 microbatches on each of 8
// ranks, with three modules each. The model is checked to have learned before it is timed.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "costmodel/cost_model.h"

namespace {

using isocost::CostModel;
using isocost::CostModule;
using isocost::CostProfile;
using isocost::Load;
using isocost::Measurement;
using isocost::MicrobatchShape;

constexpr std::int32_t kRanks = 8;
constexpr std::int32_t kMicrobatches = 64;
constexpr std::size_t kSteps = 8;
constexpr double kSlower = 1000;

Load draw_sample(isocost::Random& random) {
  Load load;
  const auto patches = static_cast<std::int64_t>(64 + random.below(4000));
  load[CostModule::kVision].add_sequence(patches);
  if (random.below(2) == 0) {
    load[CostModule::kAudio].add_sequence(static_cast<std::int64_t>(50 + random.below(1450)));
  }
  load[CostModule::kLlm].add_sequence(patches / 4 + static_cast<std::int64_t>(random.below(3000)));
  return load;
}

struct Steps {
  std::vector<Measurement> measurements;  // step by step
  std::vector<MicrobatchShape> shapes;
};

// Measurements of a machine a thousand times slower than the default, with an error of up to 5 %.
Steps draw_steps() {
  isocost::Random random(1);
  const CostModel truth(CostProfile::stated_default(), {});
  Steps steps;
  for (std::size_t n = 0; n < kSteps * kRanks * kMicrobatches; ++n) {
    std::vector<Load> samples;
    for (int i = 0; i < 8; ++i) samples.push_back(draw_sample(random));
    Measurement measurement;
    for (const Load& sample : samples) measurement.load += sample;
    steps.shapes.push_back(truth.shape_of(samples));
    measurement.seconds = truth.predict_microbatch(measurement.load, steps.shapes.back());
    for (double& seconds : measurement.seconds) {
      seconds *= kSlower * (0.95 + 0.1 * random.uniform());
    }
    measurement.rank = static_cast<std::int32_t>(n / kMicrobatches % kRanks);
    steps.measurements.push_back(measurement);
  }
  for (std::size_t n = 0; n < steps.shapes.size(); ++n) {
    steps.measurements[n].shape = steps.shapes[n];
  }
  return steps;
}

bool observe_step(CostModel& model, Steps& steps, std::uint64_t step) {
  constexpr std::size_t kStep = std::size_t{kRanks} * kMicrobatches;
  const std::size_t first = step % kSteps * kStep;
  for (std::size_t n = first; n < first + kStep; ++n) {
    steps.measurements[n].step = step;
    if (!model.observe(steps.measurements[n])) return false;
  }
  return true;
}

bool has_learned(const CostModel& model) {
  for (const double error : model.prediction_error_ratio()) {
    if (!(error < 0.04)) return false;
  }
  return true;
}

// Times update(), which planning waits for once per step, and observe() for the step's
// measurements.
void correct_a_step(benchmark::State& state, bool observing) {
  Steps steps = draw_steps();
  CostModel::Options options;
  options.correction.least_gain = 0;  // correction never pauses
  options.correction.clock = [] {
    return std::chrono::steady_clock::now().time_since_epoch().count();
  };
  CostModel model(CostProfile::stated_default(), options);
  std::uint64_t step = 0;
  for (; step < 20; ++step) {
    if (!observe_step(model, steps, step)) return state.SkipWithError("a measurement was refused");
    model.update();
  }
  if (!has_learned(model)) return state.SkipWithError("the model did not learn");
  for (auto iteration : state) {
    const auto started = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(observe_step(model, steps, step++));
    const auto observed = std::chrono::steady_clock::now();
    model.update();
    const auto end = std::chrono::steady_clock::now();
    const auto spent = observing ? observed - started : end - observed;
    state.SetIterationTime(std::chrono::duration<double>(spent).count());
  }
}
BENCHMARK_CAPTURE(correct_a_step, observe, true)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(correct_a_step, update, false)->UseManualTime()->Unit(benchmark::kMicrosecond);

void predict_sample(benchmark::State& state) {
  isocost::Random random(2);
  std::vector<Load> samples;
  for (int n = 0; n < 4096; ++n) samples.push_back(draw_sample(random));
  const CostModel model(CostProfile::stated_default(), {});
  std::size_t next = 0;
  for (auto iteration : state) {
    benchmark::DoNotOptimize(model.predict_sample(samples[next]));
    next = (next + 1) % samples.size();
  }
}
BENCHMARK(predict_sample);

}  // namespace

BENCHMARK_MAIN();
