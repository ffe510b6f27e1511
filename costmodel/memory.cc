#include "costmodel/memory.h"

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

double activation_bytes(const ModuleProfile& profile, const ModuleLoad& load) {
  const ModuleCoefficients peaks = fit_peaks(profile);
  if (!(peaks == ModuleCoefficients{})) return predict(peaks, load).count();
  if (!profile.architecture) return 0;
  const Architecture& its = *profile.architecture;
  return static_cast<double>(its.layer_activation_bytes_per_unit()) *
         (static_cast<double>(its.layers) + its.head_layers()) * static_cast<double>(load.units);
}

}  // namespace

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
  memory.activations_per_layer = memory.activations / profile.architecture->layers;
  return memory;
}

}  // namespace isocost
