#pragma once

#include <memory>

#include "costmodel/profile.h"

namespace isocost {

/// A module's seconds by its profile alone. Immutable.
class ModulePredictor {
 public:
  explicit ModulePredictor(const ModuleProfile& profile) : coefficients_(profile.coefficients) {}

  /// What a microbatch costs whatever it holds.
  double fixed() const { return coefficients_.per_microbatch; }
  /// What a sample adds to a microbatch, without fixed().
  double sample(const ModuleLoad& load) const {
    return predict(coefficients_, load).count() -
           (load.sequences == 0 && load.units == 0 ? 0 : fixed());
  }
  double microbatch(const ModuleLoad& load) const { return predict(coefficients_, load).count(); }

 private:
  ModuleCoefficients coefficients_;
};

}  // namespace isocost
