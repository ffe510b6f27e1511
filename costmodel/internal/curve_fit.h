#pragma once

#include <vector>

#include "costmodel/curve.h"
#include "costmodel/profile.h"

namespace isocost {

/// The measured deviations of a module from its form.
struct ModuleCurves {
  /// Seconds of one sequence over its length, in the largest measured microbatches; not descending.
  Curve sequence;
  /// Seconds of a microbatch relative to the sum over its sequences, over its units. 1 at the
  /// largest measured microbatch.
  Curve batch;
};

/// Fits both curves alternately, each to what the other leaves unexplained of the points with
/// sequences of equal length. Minimises squared relative errors, regularised towards a constant
/// batch curve.
ModuleCurves fit_curves(const std::vector<ProfilePoint>& points, const ModuleCoefficients& form);

}  // namespace isocost
