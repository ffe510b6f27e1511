#pragma once

#include "costmodel/internal/bucket_fit.h"
#include "costmodel/internal/rows.h"
#include "costmodel/profile.h"

namespace isocost {

/// Returns the factors that turn the profile's form into the form that fits the rows best. All four
/// weights are fitted, regularised towards the profile's weights times `scale`. For a profile of
/// another machine, this finds the new proportions from fewer rows than fitting each bucket
/// separately. Ignores rows whose ratio of measured to profile seconds differs from `scale` by more
/// than the factor `far`.
FactorVector fit_form_factors(const Rows& rows, const ModuleCoefficients& profile, double scale,
                              double far);

}  // namespace isocost
