#pragma once

#include <cmath>
#include <cstddef>

#include "base/load.h"

namespace isocost {

/// Shapes are told apart by the length of their sequences, in half octaves: kernels change with
/// size, and samples of like length err alike.
inline constexpr std::size_t kShapeBuckets = 24;

/// The length of a load's sequences, each weighted by its units: the length itself where all are
/// equally long. 0 where there are no units.
inline double typical_length(const ModuleLoad& load) {
  if (load.units <= 0) return 0;
  return static_cast<double>(load.units_squared) / static_cast<double>(load.units);
}

/// Bucket b holds lengths from bucket_start(b) up to bucket_start(b + 1); the first and the last
/// take what lies beyond, too. Exact: no logarithm is rounded.
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

/// 16, 22.6, 32, ... units.
inline double bucket_start(std::size_t bucket) {
  return 16 * std::exp2(static_cast<double>(bucket) / 2);
}

}  // namespace isocost
