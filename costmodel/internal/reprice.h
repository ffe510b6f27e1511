#pragma once

#include "costmodel/internal/bucket_fit.h"
#include "costmodel/internal/rows.h"
#include "costmodel/profile.h"

namespace isocost {

/// Factors that turn the profile's form into the one that fits rows best: all four weights anew,
/// drawn towards the profile's times `scale`. Where a profile is of another machine, this finds the
/// new proportions from fewer rows than each bucket by itself would need. Rows of which measured
/// over profile is off the scale by more than `far` are left out.
FactorVector reprice(const Rows& rows, const ModuleCoefficients& profile, double scale, double far);

}  // namespace isocost
