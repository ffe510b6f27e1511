#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/load.h"
#include "base/random.h"
#include "costmodel/cost_model.h"

namespace isocost {

/// What an emulated machine really takes, unknown to the model.
struct HiddenCost {
  /// Seconds of one module for the samples of a microbatch, at a step, on a rank of slowdown 1.
  std::function<double(Module module, std::span<const Load> samples, std::int64_t step)> seconds;
  /// Factor on a rank's seconds.
  std::function<double(std::int32_t rank, std::int64_t step)> slowdown = [](auto, auto) {
    return 1.0;
  };
};

/// The form of a profile as a hidden cost, sample by sample.
HiddenCost cost_of(const CostProfile& profile);

struct EmulationOptions {
  std::int32_t ranks = 8;
  std::int32_t microbatches = 4;
  std::int64_t global_batch_size = 256;
  std::int64_t plan_ahead = 2;  ///< A step is planned when the step so many before it has begun.
  double noise = 0.03;          ///< Of each module and microbatch: standard deviation, relative.
  double outliers = 0;          ///< Share of microbatches that take ten times as long.
  std::uint64_t seed = 1;
};

/// What came of one step.
struct EmulatedStep {
  std::int64_t step = 0;
  double seconds = 0;         ///< The slowest rank's, without noise.
  double oracle_seconds = 0;  ///< The same, had the plan been made knowing all costs and slowdowns.
  std::vector<double> rank_profile_s;     ///< [ranks]: work given to each, by the profile.
  std::vector<Measurement> measurements;  ///< Their shapes are views into `shapes`.
  std::vector<MicrobatchShape> shapes;
};

/// Trains without a model: draws global batches of pictures, documents, videos, speech and text,
/// lays them out by the model's predictions as the planner does, takes the hidden seconds and
/// reports them. Deterministic by seed. Checks that every plan holds each sample of its global
/// batch once.
class EmulatedTrainer {
 public:
  EmulatedTrainer(HiddenCost hidden, const EmulationOptions& options);

  /// Plans and runs the next step, and gives its measurements to the model.
  EmulatedStep run_step(CostModel& model);

  /// Samples of the kind that are trained on.
  std::vector<Load> draw(std::int64_t samples, std::uint64_t seed) const;
  const HiddenCost& hidden() const { return hidden_; }

 private:
  /// bins[rank · microbatches + microbatch]: samples.
  using Plan = std::vector<std::vector<std::uint32_t>>;
  struct Planned {
    std::vector<Load> samples;
    Plan plan;
  };
  Planned plan_next(const CostModel& model);
  Plan lay_out(const std::vector<double>& costs, const std::vector<double>& slowdowns) const;
  double oracle(const std::vector<Load>& samples, std::int64_t step) const;
  double slowest_rank(const Planned& planned, std::int64_t step) const;
  std::vector<Load> samples_of(const Planned& planned, std::size_t bin) const;

  HiddenCost hidden_;
  EmulationOptions options_;
  Random noise_;
  std::int64_t step_ = 0;
  std::int64_t planned_steps_ = 0;
  std::vector<Planned> ahead_;
};

/// Roughly normal with deviation one: the sum of 12 uniform numbers.
double normal(Random& random);

}  // namespace isocost
