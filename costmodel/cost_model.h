#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "costmodel/profile.h"
#include "costmodel/shape_bucket.h"

namespace isocost {

/// Seconds of a sample or microbatch, module by module.
using ModuleSeconds = std::array<double, kModules>;

/// What the profile asks for the samples of a microbatch that fall into one bucket of shapes.
struct BucketSeconds {
  Module module = Module::kVision;
  std::uint8_t bucket = 0;
  float seconds = 0;
};
/// In ascending order of module and bucket, each pair once.
using MicrobatchShape = std::vector<BucketSeconds>;

inline constexpr double kNotMeasured = -1;  ///< In place of a module's seconds.

/// One measured microbatch: what it held, where and when it ran, and what it took.
struct Measurement {
  Load load;
  ModuleSeconds seconds{};
  double forward_share = kNotMeasured;  ///< Of all these seconds: the forward passes', 0 to 1.
  std::int32_t rank = 0;
  std::uint64_t step = 0;  ///< Grows from step to step, through epochs, too.
  /// CostModel::shape_of its samples; a view that is not kept. Empty: as if all of its sequences
  /// were of their typical length.
  std::span<const BucketSeconds> shape = {};
};

struct CorrectionOptions {
  double half_life = 2048;    ///< Measurements after which one counts half; > 0.
  double least_gain = 0.002;  ///< Share of the step time below which the gate shuts in any case.
  /// Monotonic nanoseconds, for the overhead; empty: the overhead counts as none.
  std::function<std::int64_t()> clock;
};

/// Drift is detected after so many steps in a row in which a module is off to the same side.
inline constexpr int kDriftSteps = 3;

/// What correction does and why, for people and metrics.
struct CorrectionStatus {
  struct ModuleFactors {
    double fixed = 1;  ///< On the fixed seconds of a microbatch.
    std::array<double, kShapeBuckets> buckets{};
    double noise = 0;  ///< Standard deviation of microbatches around their predictions, relative.
    std::uint64_t drifts = 0;  ///< Times that model drift was detected in the module.
    double drift_ratio = 1;    ///< Measured over predicted seconds, mean of the kDriftSteps steps
                               ///< that led to the last detection.
  };
  bool on = true;            ///< The gate. Shut: one step in four is learned from, to keep watch.
  double gain = 0;           ///< Share of the step time that correction saves, predicted.
  double overhead = 0;       ///< Share of the step time that it takes, measured.
  std::uint64_t drifts = 0;  ///< Times that model drift was detected, in all modules.
  bool reprofile_suggested = false;    ///< A drift was found: the profile no longer holds.
  std::vector<double> rank_slowdowns;  ///< On each rank's seconds; ranks beyond: 1.
  std::array<ModuleFactors, kModules> modules;
};

/// Predicts, and corrects itself from measurements while training runs: a factor on each rank's
/// seconds and, in each module, one on each bucket of shapes and on the fixed cost of a microbatch.
/// Only sums over samples are observed, hence a regression: see docs/cost_model.md. Deterministic
/// in the sequence of calls, but for the gate where a clock is given. Single-thread.
class CostModel {
 public:
  struct Options {
    bool correct = true;
    CorrectionOptions correction = {};
    /// Modules that the trainer pads: each sequence of a microbatch to the longest. Others run
    /// packed.
    std::array<bool, kModules> padded{};
  };
  CostModel(CostProfile profile, const Options& options);
  ~CostModel();
  CostModel(CostModel&& other) noexcept;
  CostModel& operator=(CostModel&& other) noexcept;

  /// Seconds that a sample adds to a microbatch (without what a microbatch costs whatever it
  /// holds), on a rank of slowdown 1.
  ModuleSeconds predict_sample(const Load& load) const;
  /// The same for a microbatch, all included. `shape` as in Measurement.
  ModuleSeconds predict_microbatch(const Load& load,
                                   std::span<const BucketSeconds> shape = {}) const;
  MicrobatchShape shape_of(std::span<const Load> samples) const;
  /// The samples of a microbatch as the trainer runs them: in a padded module all sequences are as
  /// long as the longest, others stay as they are. Where a sample has several sequences, they count
  /// by their typical length.
  std::vector<Load> as_run(std::span<const Load> samples) const;
  /// Factors on the ranks' seconds, rank by rank; ranks beyond its end, and all where it is empty:
  /// 1. A view until the next call of `update`, `begin_job` or `restore_state`.
  std::span<const double> rank_slowdowns() const;

  /// Of a pass forward and backward, the part that goes forth: of the latest measurements that say
  /// so (256 seconds-weighted ones count half), a third before any does.
  double forward_share() const;

  /// Takes one measurement down; `update` learns from it. A module that was not measured, with zero
  /// seconds or with an empty load says nothing about that module. Errors: kInvalidArgument for
  /// seconds that are neither kNotMeasured nor 0 nor between kLeastModuleSeconds and
  /// kMostModuleSeconds, negative loads, an impossible rank, shape or share: the whole measurement
  /// is dropped and counted.
  Status observe(const Measurement& measurement);
  /// Another job: its ranks may be other hosts, so their slowdowns are forgotten, and its steps
  /// count from anywhere.
  void begin_job();
  /// Learns from the steps that are complete: a later one has begun, or as many measurements have
  /// come as the step before had. Call before planning; plans change with it, data never.
  void update();

  CorrectionStatus correction() const;
  /// What was learned, at most 11 kB, versioned. Left out: measurements not yet learned from, and
  /// the ranks' slowdowns, since after a restart they may be other hosts, in other numbers.
  std::string save_state() const;
  /// Goes on from a saved state. Errors: kCorrupt (broken, or impossible values), kUnsupported
  /// (another version), kInvalidArgument (of another profile); the model is as before then.
  Status restore_state(std::string_view state);

  const CostProfile& profile() const;
  /// Mean absolute percentage error of the predictions made before each measurement was seen, over
  /// the last 256 microbatches, module by module, each counting at most as ten (1000 %); NaN where
  /// nothing was measured.
  ModuleSeconds mape() const;
  std::int64_t measurements() const;
  std::int64_t rejected() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isocost
