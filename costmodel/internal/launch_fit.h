#pragma once

#include <vector>

#include "costmodel/profile.h"

namespace isocost {

/// Seconds of a device that works while its host continues. A microbatch takes no less than the
/// host needs to launch its kernels, and a larger one what the device needs for its load.
struct LaunchFit {
  double launches_s = 0;             ///< 0: the points show no such floor, as on a CPU.
  ModuleCoefficients form;           ///< Coefficients of the device's seconds.
  std::vector<ProfilePoint> points;  ///< Points that the device gates; all points without a floor.
};

/// Fits the floor together with the form of the loads above it. A floor is taken only where seconds
/// stay the same over loads of two octaves, and if it explains the points clearly better than
/// `form`, which was fitted to all of them.
LaunchFit fit_launches(const std::vector<ProfilePoint>& points, const ModuleCoefficients& form);

}  // namespace isocost
