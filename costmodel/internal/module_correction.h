#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/internal/bucket_fit.h"
#include "costmodel/internal/drift.h"
#include "costmodel/internal/rows.h"
#include "costmodel/profile.h"

namespace isocost {

/// Learns the factors of one module from the measured microbatches of consecutive steps.
///
/// In the cold phase (the first kColdRows rows, and again after a drift), it keeps all rows and
/// refits them at each step: a profile of another machine may be wrong by a factor of a thousand,
/// and only several rows can distinguish that from outliers. In the warm phase, it keeps normal
/// equations with forgetting. Rows that are several deviations off are clipped, and rows that are
/// far off are dropped; but if most rows of a bucket are off on the same side, the bucket has
/// changed and its rows count in full. If the whole module drifts
/// (see DriftDetector), its evidence is forgotten.
class ModuleCorrection {
 public:
  ModuleCorrection(const ModuleCoefficients& profile, double half_life);

  /// Returns a row's predicted over profile seconds, by the factors learned so far.
  double learned_ratio(std::span<const Share> shares) const;
  /// Returns a row's predicted over profile seconds, by the published factors.
  double published_ratio(std::span<const Share> shares) const;

  /// Takes the median over a step's `rows` rows of measured over learned seconds. Returns whether
  /// model drift was detected; the evidence is then forgotten. Call before learn().
  bool drifted(double median_ratio, std::size_t rows);
  /// Takes the rows of one step, whose `learned` must be set. slowdowns[rank] is the factor on a
  /// rank's seconds.
  void learn(const Rows& step, std::span<const double> slowdowns);

  /// Returns the published factors: the learned ones without the part that chance explains.
  const FactorVector& factors() const { return published_; }
  /// Returns the relative standard deviation of a row from its prediction.
  double noise() const { return noise_; }
  /// Return the number of detected drifts, and the ratio that led to the last one: see
  /// CorrectionStatus.
  std::uint64_t drifts() const { return drift_.drifts(); }
  double drift_ratio() const { return drift_.ratio(); }
  /// Returns whether the last step was off, which further steps may confirm as model drift.
  bool may_be_drifting() const { return drift_.is_off(); }
  /// Returns whether rows are being collected, but too few yet to distinguish buckets.
  bool learning_anew() const { return is_cold_ && !cold_.rows.empty(); }

  /// The state as plain values.
  struct Saved {
    FactorVector prior{};
    FactorVector learned{};
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
  /// Limits on measured over expected seconds. Beyond the clip limits a row counts as the limit;
  /// beyond the drop limits it does not count.
  struct Limits {
    double clip_below, clip_above;
    double drop_below, drop_above;
  };
  void add_clipped(std::span<const Share> shares, double expected, double target,
                   const Limits& limits);
  bool changed_bucket(std::span<const Share> shares) const;
  void publish(const Fit& fit);

  ModuleCoefficients profile_;
  double keep_;               // part of the evidence that remains after a row
  FactorVector prior_{};      // regularises the fit
  FactorVector learned_{};    // the fit
  FactorVector published_{};  // the significant part of the fit
  Evidence evidence_;
  double noise_;
  double noise_before_drift_ = 0;  // 0: no drift
  Rows cold_;                      // all rows of the cold phase, divided by their rank's slowdown
  bool is_cold_ = true;
  bool fitted_ = false;  // the prior is a form fitted to few rows, not a profile
  FactorVector off_{};   // running mean of +1 / -1 for rows that were clipped
  DriftDetector drift_;
  std::vector<double> scratch_;
};

}  // namespace isocost
