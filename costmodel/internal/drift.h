#pragma once

#include <cstddef>
#include <cstdint>

#include "costmodel/cost_model.h"

namespace isocost {

/// Detects model drift of one module: the median of measured over learned seconds is off on the
/// same side, by more than chance explains, for kDriftSteps consecutive steps. Single-thread.
class DriftDetector {
 public:
  /// Takes a step's median over `rows` rows, whose relative standard deviation is `noise`. Returns
  /// whether it detected drift; it then counts anew. A step without rows is ignored.
  bool take(double median_ratio, std::size_t rows, double noise);
  /// Forgets the steps so far, but not the drifts.
  void restart() { steps_off_ = 0; }

  /// Returns whether the last step was off. A module that has not come since for kDriftSteps steps
  /// is in doubt no longer.
  bool is_off() const { return steps_off_ != 0 && steps_without_ < kDriftSteps; }
  /// Returns the number of detected drifts.
  std::uint64_t drifts() const { return drifts_; }
  /// Returns the mean of the medians that led to the last detection; 1 before the first.
  double ratio() const { return ratio_; }

 private:
  int steps_off_ = 0;      // consecutive steps; the sign is the side
  double ratios_off_ = 0;  // sum over these steps
  int steps_without_ = 0;  // consecutive steps without rows
  std::uint64_t drifts_ = 0;
  double ratio_ = 1;
};

}  // namespace isocost
