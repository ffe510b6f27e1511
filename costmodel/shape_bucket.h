#pragma once

#include <cmath>
#include <cstddef>

#include "base/load.h"

namespace isocost {

/// Number of buckets. Loads are classified by the length of their sequences into buckets of half an
/// octave, because kernels change with size and samples of similar length have similar errors.
inline constexpr std::size_t kShapeBuckets = 24;

/// Returns the mean length of a load's sequences, weighted by units: the length itself if all are
/// equally long; 0 without units.
inline double typical_length(const ModuleLoad& load) {
  if (load.units <= 0) return 0;
  return static_cast<double>(load.units_squared) / static_cast<double>(load.units);
}

/// Returns the bucket of a load. Bucket b holds lengths from bucket_start(b) up to
/// bucket_start(b + 1); the first and the last bucket also hold the lengths beyond. Exact: no
/// logarithm is rounded.
inline std::size_t shape_bucket(const ModuleLoad& load) {
  constexpr double kHalfOctave = 0.70710678118654752440;
  const double length = typical_length(load) / 16;
  if (length < 1) return 0;
  int octave = 0;
  const double mantissa = std::frexp(length, &octave);  // in [0.5, 1)
  const auto bucket =
      static_cast<std::size_t>(2 * (octave - 1)) + (mantissa >= kHalfOctave ? 1U : 0U);
  return bucket < kShapeBuckets ? bucket : kShapeBuckets - 1;
}

/// Returns the smallest length of a bucket: 16, 22.6, 32, ... units.
inline double bucket_start(std::size_t bucket) {
  return 16 * std::exp2(static_cast<double>(bucket) / 2);
}

}  // namespace isocost
