#include "costmodel/profile.h"

namespace isocost {

Seconds predict(const ModuleCoefficients& coefficients, const ModuleLoad& load) {
  if (load.sequences == 0 && load.units == 0) return Seconds{0};
  return Seconds{coefficients.per_microbatch +
                 coefficients.per_sequence * static_cast<double>(load.sequences) +
                 coefficients.per_unit * static_cast<double>(load.units) +
                 coefficients.per_unit_squared * static_cast<double>(load.units_squared)};
}

}  // namespace isocost
