#pragma once

#include <vector>

#include "costmodel/curve.h"
#include "costmodel/profile.h"

namespace isocost {

/// What the measured points of a module say beyond its form.
struct ModuleCurves {
  /// Seconds of one sequence over its length, in as full a microbatch as was measured; never falls.
  Curve sequence;
  /// Seconds of a microbatch's sequences, by its units, over the sum of theirs: small ones do not
  /// fill the device, large ones leave the caches. One at the largest microbatch that was measured.
  Curve batch;
};

/// Both curves by turns, as each explains what the other leaves of the points of equally long
/// sequences: least squares of relative errors, drawn towards a batch curve that is flat.
ModuleCurves fit_curves(const std::vector<ProfilePoint>& points, const ModuleCoefficients& form);

}  // namespace isocost
