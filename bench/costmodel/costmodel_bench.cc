// A prediction and a correction, three modules each. The model is checked to have learnt before it
// is timed.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "costmodel/cost_model.h"

namespace {

using isocost::CostModel;
using isocost::CostProfile;
using isocost::Load;
using isocost::Measurement;
using isocost::Module;

constexpr std::size_t kMeasurements = 4096;
constexpr double kSlower = 1000;

Load draw_load(isocost::Random& random) {
  Load load;
  for (int sample = 0; sample < 8; ++sample) {
    const auto patches = static_cast<std::int64_t>(64 + random.below(4000));
    load[Module::kVision].add_sequence(patches);
    load[Module::kAudio].add_sequence(static_cast<std::int64_t>(50 + random.below(1450)));
    load[Module::kLlm].add_sequence(patches / 4 + static_cast<std::int64_t>(random.below(800)));
  }
  return load;
}

// What a machine a thousand times slower than the default measures, give or take 5 %.
std::vector<Measurement> measurements() {
  isocost::Random random(1);
  const CostModel truth(CostProfile::stated_default(), {});
  std::vector<Measurement> all;
  for (std::size_t n = 0; n < kMeasurements; ++n) {
    const Load load = draw_load(random);
    Measurement measurement{load, truth.predict_microbatch(load)};
    for (double& seconds : measurement.seconds)
      seconds *= kSlower * (0.95 + 0.1 * random.uniform());
    all.push_back(measurement);
  }
  return all;
}

bool learnt(const CostModel& model) {
  for (const double error : model.mape()) {
    if (!(error < 0.04)) return false;
  }
  return true;
}

void observe(benchmark::State& state) {
  const auto all = measurements();
  CostModel model(CostProfile::stated_default(), {});
  for (const Measurement& measurement : all) {
    if (!model.observe(measurement)) return state.SkipWithError("a measurement was refused");
  }
  if (!learnt(model)) return state.SkipWithError("the model did not learn");
  std::size_t next = 0;
  for (auto step : state) {
    benchmark::DoNotOptimize(model.observe(all[next]));
    next = (next + 1) % kMeasurements;
  }
}
BENCHMARK(observe);

void predict_sample(benchmark::State& state) {
  const auto all = measurements();
  const CostModel model(CostProfile::stated_default(), {});
  std::size_t next = 0;
  for (auto step : state) {
    benchmark::DoNotOptimize(model.predict_sample(all[next].load));
    next = (next + 1) % kMeasurements;
  }
}
BENCHMARK(predict_sample);

}  // namespace

BENCHMARK_MAIN();
