#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/load.h"
#include "base/random.h"
#include "costmodel/cost_model.h"
#include "costmodel/measured_steps.h"

namespace isocost {

/// The true seconds of an emulated machine, which the cost model does not know.
struct HiddenCost {
  /// Returns the seconds of one module for a microbatch at a step, on a rank of slowdown 1.
  std::function<double(CostModule module, std::span<const Load> samples, std::int64_t step)>
      seconds;
  /// Returns the factor on a rank's seconds.
  std::function<double(std::int32_t rank, std::int64_t step)> slowdown = [](auto, auto) {
    return 1.0;
  };
};

/// Returns the hidden cost that follows a model profile's coefficients exactly.
HiddenCost cost_of(const CostProfile& profile);

struct EmulationOptions {
  std::int32_t ranks = 8;
  std::int32_t microbatches = 4;
  std::int64_t global_batch_size = 256;
  std::int64_t plan_ahead = 2;  ///< Steps that are planned ahead of the one that runs.
  double noise = 0.03;          ///< Relative standard deviation, per module and microbatch.
  double outliers = 0;          ///< Part of the microbatches that take ten times as long.
  /// Share of a microbatch's seconds that measuring takes in addition, where a step is measured.
  double measuring = 0;
  bool measures_all = true;  ///< Whether every step is measured, or those that the model wants.
  std::uint64_t seed = 1;
};

/// The result of one step.
struct EmulatedStep {
  std::int64_t step = 0;
  bool measured = true;
  double seconds = 0;         ///< Seconds of the slowest rank, without noise and measuring.
  double oracle_seconds = 0;  ///< These seconds for a plan made with the true costs and slowdowns.
  std::vector<double> rank_profile_s;     ///< [ranks]: seconds of each rank's work by the profile.
  std::vector<Measurement> measurements;  ///< Their shapes are views into `shapes`.
  std::vector<MicrobatchShape> shapes;
};

/// Emulates training: draws global batches of pictures, documents, videos, speech and text, plans
/// them by the cost model's predictions as the planner does, and reports the hidden seconds. The
/// same seed gives the same run. Aborts if a plan does not hold each sample of its global batch
/// once.
class EmulatedTrainer {
 public:
  EmulatedTrainer(HiddenCost hidden, const EmulationOptions& options);

  /// Plans and runs the next step, and passes its measurements to the cost model.
  EmulatedStep run_step(CostModel& model);

  /// Returns samples from the distribution that is trained on.
  std::vector<Load> draw(std::int64_t samples, std::uint64_t seed) const;
  const HiddenCost& hidden() const { return hidden_; }

 private:
  /// bins[rank · microbatches + microbatch]: samples.
  using Plan = std::vector<std::vector<std::uint32_t>>;
  struct Planned {
    std::vector<Load> samples;
    Plan plan;
    bool measured = true;
  };
  Planned plan_next(const CostModel& model);
  Plan lay_out(const std::vector<double>& costs, const std::vector<double>& slowdowns) const;
  double oracle(const std::vector<Load>& samples, std::int64_t step) const;
  double slowest_rank(const Planned& planned, std::int64_t step) const;
  std::vector<Load> samples_of(const Planned& planned, std::size_t bin) const;

  HiddenCost hidden_;
  EmulationOptions options_;
  Random noise_;
  MeasuredSteps measured_steps_;
  std::int64_t step_ = 0;
  std::int64_t planned_steps_ = 0;
  std::vector<Planned> ahead_;
};

/// Returns an approximately normal number of mean 0 and deviation 1, the sum of 12 uniform numbers.
double normal(Random& random);

}  // namespace isocost
