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

/// Seconds of a sample or microbatch, by module.
using ModuleSeconds = std::array<double, kModules>;

/// Profile seconds of the samples of a microbatch that belong to one shape bucket of one module.
struct BucketSeconds {
  CostModule module = CostModule::kVision;
  std::uint8_t bucket = 0;
  float seconds = 0;
};
/// In ascending order of module and bucket; each pair occurs at most once.
using MicrobatchShape = std::vector<BucketSeconds>;

/// A measured microbatch: its load, its rank and step, and its seconds.
struct Measurement {
  Load load;
  ModuleSeconds seconds{};
  /// Forward part of all these seconds, 0 to 1, or kNotMeasured.
  double forward_share = kNotMeasured;
  /// Seconds that measuring took the rank, which are not part of `seconds`, or kNotMeasured.
  double measuring_s = kNotMeasured;
  std::int32_t rank = 0;
  std::uint64_t step = 0;  ///< Increases from step to step, across epochs.
  /// Result of CostModel::shape_of for the microbatch's samples. A view that is not kept. Empty:
  /// all sequences are treated as having their typical length.
  std::span<const BucketSeconds> shape = {};
};

struct CorrectionOptions {
  double half_life = 2048;  ///< Number of measurements after which one counts half; > 0.
  /// Gain below which correction pauses, as a share of the step time.
  double least_gain = 0.002;
  /// Monotonic nanoseconds, to measure the overhead. Empty: the overhead counts as zero.
  std::function<std::int64_t()> clock;
};

/// Consecutive measured steps in which a module is off on the same side before model drift is
/// detected.
inline constexpr int kDriftSteps = 3;
/// While correction is paused, one step in at least this many is measured, and in at most
/// kMostStride.
inline constexpr std::int64_t kLeastStride = 16;
inline constexpr std::int64_t kMostStride = 1024;

/// State of the correction, for display and metrics.
struct CorrectionStatus {
  struct ModuleFactors {
    double fixed = 1;                             ///< Factor on the fixed seconds of a microbatch.
    std::array<double, kShapeBuckets> buckets{};  ///< Factor on each shape bucket.
    /// Penalty of the most underestimated length: the largest factor of a bucket over their median.
    double penalty = 1;
    double noise = 0;  ///< Relative standard deviation of microbatches from their predictions.
    std::uint64_t drifts = 0;  ///< Number of times that model drift was detected in the module.
    /// Measured over predicted seconds: mean of the kDriftSteps steps before the last detection.
    double drift_ratio = 1;
  };
  /// False while correction is paused (monitoring): it then learns from one step in
  /// `measuring_stride`.
  bool on = true;
  double gain = 0;  ///< Predicted share of the step time that correction saves.
  /// Measured share of the step time that correction takes in a step that is measured: of trainers
  /// that measure, and of the node that learns.
  double overhead = 0;
  double measuring = 0;  ///< The trainers' part of `overhead`.
  /// One step in so many is to be measured; 1: every step.
  std::int64_t measuring_stride = 1;
  std::uint64_t drifts = 0;  ///< Number of detections of model drift in all modules.
  bool reprofile_suggested =
      false;  ///< Whether model drift was detected, so that the profile is out of date.
  std::vector<double> rank_slowdowns;  ///< Factor on each rank's seconds; ranks beyond the end: 1.
  std::array<ModuleFactors, kModules> modules;
};

/// Predicts seconds from a model profile and corrects itself from measurements while training runs.
/// Learns a slowdown for each rank and, in each module, a factor on each shape bucket and one on
/// the fixed seconds of a microbatch. Only sums over a microbatch's samples are measured, so the
/// factors are found by regression; see docs/cost_model.md. The same calls give the same numbers,
/// except that a clock, if given, decides when correction pauses. Single-thread.
class CostModel {
 public:
  struct Options {
    bool correct = true;
    CorrectionOptions correction = {};
    /// Modules that the trainer pads: each sequence of a microbatch is as long as the longest.
    /// Other modules run packed.
    std::array<bool, kModules> padded{};
    /// Padded sequences of the LLM have a multiple of this as their length; at least 1.
    std::int64_t padded_multiple = 1;
  };
  CostModel(CostProfile profile, const Options& options);
  ~CostModel();
  CostModel(CostModel&& other) noexcept;
  CostModel& operator=(CostModel&& other) noexcept;

  /// Returns the seconds that a sample adds to a microbatch on a rank of slowdown 1. The fixed
  /// seconds of a microbatch are not included.
  ModuleSeconds predict_sample(const Load& load) const;
  /// Returns the seconds of a microbatch on a rank of slowdown 1, fixed seconds included. For
  /// `shape` see Measurement.
  ModuleSeconds predict_microbatch(const Load& load,
                                   std::span<const BucketSeconds> shape = {}) const;
  MicrobatchShape shape_of(std::span<const Load> samples) const;
  /// Returns the loads of a microbatch's samples as the trainer runs them: in a padded module all
  /// sequences become as long as the longest (see `padded_length`), in other modules they stay
  /// unchanged. A sample with several sequences counts by their typical length.
  std::vector<Load> as_run(std::span<const Load> samples) const;
  /// Returns the length to which the sequences of a padded module are padded where this sample's
  /// are the longest.
  std::int64_t padded_length(CostModule module, const ModuleLoad& load) const;
  /// Returns whether the trainer pads the module.
  bool is_padded(CostModule module) const;
  /// Returns the factor on each rank's seconds. Ranks beyond its end have the factor 1. The view is
  /// valid until the next call of update(), begin_job() or restore_state().
  std::span<const double> rank_slowdowns() const;

  /// Returns the forward pass's part of forward and backward seconds: the mean of the latest
  /// measurements that report it (a measurement counts half after 256 more), or 1/3 before any
  /// does.
  double forward_share() const;
  /// Returns whether forward_share() was measured.
  bool forward_measured() const;

  /// Records one measurement; update() learns from it. A module is skipped if it was not measured,
  /// if its seconds are zero, or if its load is empty. Errors: kInvalidArgument for seconds that
  /// are not is_reportable, for negative loads, for an invalid rank, shape or share, and for the
  /// first of a module's times that is over 100 times as long as expected (internal/far_beyond.h).
  /// The whole measurement is then dropped and counted.
  Status observe(const Measurement& measurement);
  /// Records that no more measurements of steps before this one come, since a rank has gone on to
  /// steps whose seconds nobody measures.
  void pass(std::uint64_t complete);
  /// Returns the number of steps of which one is to be measured: 1 until the factors are settled,
  /// and while a module or a rank seems to have changed. Otherwise so many that measuring takes a
  /// tenth of the gain at most; while correction is paused a quarter of
  /// CorrectionOptions::least_gain, and at least kLeastStride.
  std::int64_t measuring_stride() const;
  /// Starts another job: its ranks may be on other hosts, so slowdowns are forgotten, and its steps
  /// may be counted from any number.
  void begin_job();
  /// Learns from the complete steps. A step is complete when a later one has begun, or when it has
  /// as many measurements as the step before. Call before planning: updates change plans, but never
  /// the data.
  void update();

  CorrectionStatus correction() const;
  /// Returns the learned state, at most 11 kB, versioned. It does not include measurements that
  /// update() has not used yet, nor the slowdowns, since after a restart the ranks may be on other
  /// hosts or differ in number.
  std::string save_state() const;
  /// Restores a saved state. Errors: kCorrupt (damaged, or impossible values), kUnsupported
  /// (another version), kInvalidArgument (another model profile). The model is unchanged after an
  /// error.
  Status restore_state(std::string_view state);

  const CostProfile& profile() const;
  /// Returns the mean absolute percentage error by module, over the last 256 microbatches. Each
  /// prediction is made before its measurement is used, and an error counts as at most 10 (1000 %).
  /// NaN for a module without measurements.
  ModuleSeconds prediction_error_ratio() const;
  std::int64_t measurements() const;
  std::int64_t rejected() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isocost
