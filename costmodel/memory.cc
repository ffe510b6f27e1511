#include "costmodel/memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace isocost {
namespace {

// The form's weights in bytes: what is fitted to seconds fits any amount that grows with the load.
ModuleCoefficients fit_peaks(const ModuleProfile& profile) {
  std::vector<ProfilePoint> peaks;
  for (const ProfilePoint& point : profile.points) {
    if (point.peak_bytes == 0) continue;
    peaks.push_back({.load = point.load, .forward_s = static_cast<double>(point.peak_bytes)});
  }
  return peaks.empty() ? ModuleCoefficients{} : fit_coefficients(peaks);
}

double bytes_per_unit(const Architecture& its) {
  return static_cast<double>(its.layer_activation_bytes_per_unit()) *
         (static_cast<double>(its.layers) + its.head_layers());
}

double activation_bytes(const ModuleProfile& profile, const ModuleLoad& load) {
  const ModuleCoefficients peaks = fit_peaks(profile);
  if (!(peaks == ModuleCoefficients{})) return predict(peaks, load).count();
  if (!profile.architecture) return 0;
  return bytes_per_unit(*profile.architecture) * static_cast<double>(load.units);
}

}  // namespace

double activation_bytes_per_unit(const ModuleProfile& profile) {
  double dearest = 0;
  std::int64_t most = 0;
  for (const ProfilePoint& point : profile.points) most = std::max(most, point.load.units);
  for (const ProfilePoint& point : profile.points) {
    if (2 * point.load.units < most) continue;  // what does not grow would count too much
    dearest = std::max(
        dearest, static_cast<double>(point.peak_bytes) / static_cast<double>(point.load.units));
  }
  if (dearest == 0 && profile.architecture) return bytes_per_unit(*profile.architecture);
  return dearest;
}

ModuleMemory predict_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                            std::int64_t in_flight) {
  ModuleMemory memory;
  memory.activations =
      std::llround(static_cast<double>(in_flight) * activation_bytes(profile, microbatch));
  if (!profile.architecture) return memory;
  const auto parameters = static_cast<double>(profile.architecture->parameters());
  memory.weights = std::llround(StateBytes::kWeight * parameters);
  memory.gradients = std::llround(StateBytes::kGradient * parameters);
  memory.optimizer = std::llround(StateBytes::kOptimizer * parameters);
  const double layers =
      static_cast<double>(profile.architecture->layers) + profile.architecture->head_layers();
  memory.activations_per_layer = std::llround(static_cast<double>(memory.activations) / layers);
  return memory;
}

}  // namespace isocost
