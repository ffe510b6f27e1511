#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/internal/bucket_fit.h"
#include "costmodel/internal/rows.h"
#include "costmodel/profile.h"

namespace isocost {

/// Learns the factors of one module from microbatches that finished in one step after another.
///
/// Cold (the first kColdRows rows, and again after a drift) it keeps the rows and refits all of
/// them at each step, because a profile of another machine may be wrong by a factor of a thousand,
/// and only several rows tell that from outliers. Warm, it keeps normal equations with forgetting.
/// Rows that are a few deviations off are clipped, those far off are dropped; but buckets most of
/// whose rows are off to one side are no outliers and count in full. Where the whole module is off
/// for kDriftSteps steps on end, it has changed: its evidence is forgotten.
class ModuleCorrection {
 public:
  ModuleCorrection(const ModuleCoefficients& profile, double half_life);

  /// What the factors learned so far make of a row: predicted over the profile's seconds.
  double learnt_ratio(std::span<const Share> shares) const;
  /// The same with the published factors.
  double published_ratio(std::span<const Share> shares) const;

  /// How far off the whole module was in a step: the median of `ratios`, measured over learned.
  /// Returns whether a drift was found; the evidence is forgotten then. Call before learn().
  bool drifted(double median_ratio, std::size_t rows);
  /// Takes the rows of one step, with `learned` filled in; `slowdowns[rank]` multiplies a rank's
  /// seconds.
  void learn(const Rows& step, std::span<const double> slowdowns);

  /// Those learned, less what may be chance.
  const FactorVector& factors() const { return published_; }
  /// Standard deviation of a row around its prediction, relative.
  double noise() const { return noise_; }
  /// Times that drift was detected here, and how far off the module was the last time: see
  /// CorrectionStatus.
  std::uint64_t drifts() const { return drifts_; }
  double drift_ratio() const { return drift_ratio_; }
  /// Rows have come, but too few yet to tell one bucket from another.
  bool learning_anew() const { return is_cold_ && !cold_.rows.empty(); }

  /// State as plain values.
  struct Saved {
    FactorVector prior{};
    FactorVector cost_model_state{};
    FactorVector published{};
    Evidence evidence;
    double noise = 0;
    bool fitted = false;
  };
  Saved save() const;
  void restore(const Saved& saved);

 private:
  void refit_cold();
  std::size_t seen_factors() const;
  FactorVector cold_prior();
  double cold_deviation(const FactorVector& factors);
  void learn_warm(const Rows& step, std::span<const double> slowdowns);
  /// Of measured over expected: what is beyond counts as this much, or not at all.
  struct Limits {
    double clip_below, clip_above;
    double drop_below, drop_above;
  };
  void add_clipped(std::span<const Share> shares, double expected, double target,
                   const Limits& limits);
  bool changed_bucket(std::span<const Share> shares) const;
  void publish(const Fit& fit);

  ModuleCoefficients profile_;
  double keep_;                      // of the evidence, a row
  FactorVector prior_{};             // where the fit is drawn to
  FactorVector cost_model_state_{};  // the fit
  FactorVector published_{};         // what is significant of it
  Evidence evidence_;
  double noise_;
  double noise_before_drift_ = 0;  // 0: there was none
  Rows cold_;                      // all rows while cold, divided by their rank's slowdown
  bool is_cold_ = true;
  bool fitted_ = false;    // the prior is a form fitted to few rows, not a profile
  FactorVector off_{};     // running mean of +1 / -1 for rows that were clipped
  int steps_off_ = 0;      // on end; the sign tells the side
  double ratios_off_ = 0;  // sum over these steps
  std::uint64_t drifts_ = 0;
  double drift_ratio_ = 1;
  std::vector<double> scratch_;
};

}  // namespace isocost
