#pragma once

#include <cstdint>

#include "base/load.h"
#include "costmodel/profile.h"

namespace isocost {

/// Bytes per parameter in mixed-precision training with Adam (Rajbhandari et al. 2020, ZeRO,
/// section 3.1; here gradients accumulate in fp32).
struct StateBytes {
  static constexpr double kWeight = 2;      ///< bf16.
  static constexpr double kGradient = 4;    ///< fp32.
  static constexpr double kOptimizer = 12;  ///< fp32: master weight and two moments.
};

/// Bytes of a module on one rank, without sharding. No field exceeds kMost, so sums do not
/// overflow.
struct ModuleMemory {
  /// One exbibyte, more than any machine has. Larger predictions are clamped to it.
  static constexpr std::int64_t kMost = std::int64_t{1} << 60;

  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;  ///< Activations of all microbatches in flight.
  /// Activations of one layer (the output head counts as head_layers() layers); 0 if the layers are
  /// unknown.
  std::int64_t activations_per_layer = 0;

  std::int64_t total() const { return weights + gradients + optimizer + activations; }
};

/// Returns the activation bytes per unit of a large microbatch: the most expensive measured one if
/// the profile has peaks, else by the architecture; 0 if it has neither.
double activation_bytes_per_unit(const ModuleProfile& profile);

/// Returns whether the module was measured without a backward pass.
bool is_frozen(const ModuleProfile& profile);

/// Returns whether profiling ran out of memory at a load that this load equals or exceeds in both
/// units and squared units. False if profiling never ran out of memory.
bool beyond_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                   std::int64_t in_flight = 1);

/// Returns the memory that a module needs while `in_flight` microbatches of this load wait for
/// their backward passes. Activations are interpolated from measured peaks, or follow from the
/// architecture if there are none. State follows from the architecture and is 0 without one. A
/// frozen module has no gradients, no optimizer state, and the activations of one microbatch (by
/// the architecture: of one layer). Not modelled: fragmentation, and temporary buffers beyond those
/// of the measured peaks.
ModuleMemory predict_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                            std::int64_t in_flight = 1);

}  // namespace isocost
