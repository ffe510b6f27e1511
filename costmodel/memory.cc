#include "costmodel/memory.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace isocost {
namespace {

// Fits the form to peak bytes instead of seconds, since it suits any quantity that grows with the
// load.
ModuleCoefficients fit_peaks(const ModuleProfile& profile) {
  std::vector<ProfilePoint> peaks;
  for (const ProfilePoint& point : profile.points) {
    if (point.peak_bytes == 0) continue;
    peaks.push_back({.load = point.load, .forward_s = static_cast<double>(point.peak_bytes)});
  }
  return peaks.empty() ? ModuleCoefficients{} : fit_coefficients(peaks);
}

double layer_count(const Architecture& its) {
  return static_cast<double>(its.layers) + its.head_layers();
}

double bytes_per_unit(const Architecture& its) {
  return static_cast<double>(its.layer_activation_bytes_per_unit()) * layer_count(its);
}

// Returns the number of parameters, in floating point, because a profile may state dimensions whose
// product exceeds 64 bits.
double parameters(const Architecture& its) {
  return static_cast<double>(its.layers) * static_cast<double>(its.layer_parameters()) +
         static_cast<double>(its.embedding_parameters);
}

std::int64_t whole_bytes(double bytes) {
  constexpr auto kMost = static_cast<double>(ModuleMemory::kMost);
  return bytes < kMost ? std::llround(bytes) : ModuleMemory::kMost;
}

// Returns the activation bytes of one microbatch. The layers of a frozen module reuse the same
// memory.
double activation_bytes(const ModuleProfile& profile, const ModuleLoad& load) {
  const ModuleCoefficients peaks = fit_peaks(profile);
  if (!(peaks == ModuleCoefficients{})) return predict(peaks, load).count();
  if (!profile.architecture) return 0;
  const Architecture& its = *profile.architecture;
  const double layers = is_frozen(profile) ? 1 : layer_count(its);
  return static_cast<double>(its.layer_activation_bytes_per_unit()) * layers *
         static_cast<double>(load.units);
}

}  // namespace

bool is_frozen(const ModuleProfile& profile) {
  return !profile.points.empty() &&
         std::all_of(profile.points.begin(), profile.points.end(),
                     [](const ProfilePoint& point) { return point.backward_s == 0; });
}

bool beyond_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                   std::int64_t in_flight) {
  const ModuleLoad& full = profile.out_of_memory;
  if (full.units == 0) return false;
  const double kept = is_frozen(profile) ? 1 : static_cast<double>(in_flight);
  return kept * static_cast<double>(microbatch.units) >= static_cast<double>(full.units) &&
         kept * static_cast<double>(microbatch.units_squared) >=
             static_cast<double>(full.units_squared);
}

double activation_bytes_per_unit(const ModuleProfile& profile) {
  double most_expensive = 0;
  std::int64_t most = 0;
  for (const ProfilePoint& point : profile.points) most = std::max(most, point.load.units);
  for (const ProfilePoint& point : profile.points) {
    if (2 * point.load.units < most) continue;  // otherwise fixed bytes would dominate
    most_expensive = std::max(most_expensive, static_cast<double>(point.peak_bytes) /
                                                  static_cast<double>(point.load.units));
  }
  if (most_expensive == 0 && profile.architecture) return bytes_per_unit(*profile.architecture);
  return most_expensive;
}

ModuleMemory predict_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                            std::int64_t in_flight) {
  const bool frozen = is_frozen(profile);
  const double kept = frozen ? 1 : static_cast<double>(in_flight);
  const double activations = kept * activation_bytes(profile, microbatch);
  ModuleMemory memory{.activations = whole_bytes(activations)};
  if (!profile.architecture) return memory;
  const double layers = frozen ? 1 : layer_count(*profile.architecture);
  memory.activations_per_layer = whole_bytes(activations / layers);
  memory.weights = whole_bytes(StateBytes::kWeight * parameters(*profile.architecture));
  if (frozen) return memory;
  memory.gradients = whole_bytes(StateBytes::kGradient * parameters(*profile.architecture));
  memory.optimizer = whole_bytes(StateBytes::kOptimizer * parameters(*profile.architecture));
  return memory;
}

}  // namespace isocost
