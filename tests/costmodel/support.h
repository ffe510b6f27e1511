#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "costmodel/cost_model.h"

namespace isocost {

/// Draws samples with images of many sizes, audio of up to 30 s, and text.
inline std::vector<Load> random_samples(Random& random) {
  std::vector<Load> samples(1 + random.below(12));
  for (Load& load : samples) {
    const auto patches = static_cast<std::int64_t>(64 + random.below(4000));
    const auto positions = static_cast<std::int64_t>(50 + random.below(1500));
    load[CostModule::kVision].add_sequence(patches);
    load[CostModule::kAudio].add_sequence(positions);
    load[CostModule::kLlm].add_sequence(patches / 4 + positions / 2 +
                                        static_cast<std::int64_t>(random.below(800)));
  }
  return samples;
}

inline Load sum_of(const std::vector<Load>& samples) {
  Load load;
  for (const Load& sample : samples) load += sample;
  return load;
}

inline Load random_microbatch(Random& random) { return sum_of(random_samples(random)); }

/// Approximately normal with deviation one: the sum of 12 uniform numbers.
inline double noise(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

/// A machine with hidden coefficients and a relative measurement error of `spread`.
struct Machine {
  std::array<ModuleCoefficients, kModules> hidden;
  double spread = 0.03;

  ModuleSeconds exact(const Load& load) const {
    ModuleSeconds seconds{};
    for (std::size_t i = 0; i < kModules; ++i) {
      seconds.at(i) = predict(hidden.at(i), load.modules.at(i)).count();
    }
    return seconds;
  }
  /// Returns a measurement without a shape.
  Measurement measure(const Load& load, Random& random) const {
    Measurement measurement{.load = load, .seconds = exact(load)};
    for (double& seconds : measurement.seconds) seconds *= 1 + spread * noise(random);
    return measurement;
  }
};

/// Returns the mean absolute relative error of predictions for the worst module.
inline double worst_error(const CostModel& model, const Machine& machine, std::uint64_t seed) {
  Random random(seed);
  ModuleSeconds sums{};
  constexpr int kMicrobatches = 200;
  for (int n = 0; n < kMicrobatches; ++n) {
    const std::vector<Load> samples = random_samples(random);
    const Load load = sum_of(samples);
    const ModuleSeconds exact = machine.exact(load);
    const ModuleSeconds predicted = model.predict_microbatch(load, model.shape_of(samples));
    for (std::size_t i = 0; i < kModules; ++i) {
      sums.at(i) += std::abs(predicted.at(i) / exact.at(i) - 1) / kMicrobatches;
    }
  }
  return std::max({sums[0], sums[1], sums[2]});
}

inline std::array<ModuleCoefficients, kModules> stated_coefficients() {
  std::array<ModuleCoefficients, kModules> coefficients;
  const CostProfile profile = CostProfile::stated_default();
  for (std::size_t i = 0; i < kModules; ++i) {
    coefficients.at(i) = profile.modules.at(i).coefficients;
  }
  return coefficients;
}

inline CostProfile profile_of(const std::array<ModuleCoefficients, kModules>& coefficients) {
  CostProfile profile;
  for (std::size_t i = 0; i < kModules; ++i) {
    profile.modules.at(i).coefficients = coefficients.at(i);
  }
  return profile;
}

/// Passes a measurement on. Only a job's first may be refused, and only if it is far beyond the
/// profile.
inline void observe(CostModel& model, const Measurement& measurement) {
  const bool is_first = model.measurements() == 0 && model.rejected() == 0;
  const Status observed = model.observe(measurement);
  if (observed) return;
  ASSERT_TRUE(is_first) << observed.error().message();
  ASSERT_THAT(observed.error().message(), testing::HasSubstr("times the expected"));
}

/// Lets the model learn from one measurement as a step of its own.
inline void learn(CostModel& model, const Measurement& measurement) {
  observe(model, measurement);
  model.update();
}

/// Measures a random microbatch and lets the model learn from it.
inline void train(CostModel& model, const Machine& machine, Random& random) {
  const std::vector<Load> samples = random_samples(random);
  const MicrobatchShape shape = model.shape_of(samples);
  Measurement measurement = machine.measure(sum_of(samples), random);
  measurement.shape = shape;
  learn(model, measurement);
}

/// A thousand times slower than the default profile, with other proportions.
inline Machine slow_machine() {
  Machine machine{.hidden = stated_coefficients()};
  for (ModuleCoefficients& module : machine.hidden) {
    module.per_microbatch *= 500;
    module.per_sequence = 2e-3;
    module.per_unit *= 1000;
    module.per_unit_squared *= 2500;
  }
  return machine;
}

}  // namespace isocost
