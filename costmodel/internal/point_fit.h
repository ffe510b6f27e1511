#pragma once

#include <vector>

#include "costmodel/profile.h"

namespace isocost {

/// Returns the weight of a point in a fit, up to 1. Noisy points have less.
double weight_of(const ProfilePoint& point);

/// Fits non-negative coefficients to the points by relative least squares; all zero for no points.
/// `against_fixed`: how much the fixed seconds' share of the points counts as an error, relative to
/// the same error in every point.
ModuleCoefficients fit_points(const std::vector<ProfilePoint>& points, double against_fixed);

}  // namespace isocost
