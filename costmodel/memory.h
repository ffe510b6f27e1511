#pragma once

#include <cstdint>

#include "base/load.h"
#include "costmodel/profile.h"

namespace isocost {

/// Bytes a parameter takes while it trains with Adam in mixed precision (Rajbhandari et al. 2020,
/// ZeRO, section 3.1; gradients accumulate in fp32 here).
struct StateBytes {
  static constexpr double kWeight = 2;      ///< bf16.
  static constexpr double kGradient = 4;    ///< fp32.
  static constexpr double kOptimizer = 12;  ///< fp32: master weight and two moments.
};

/// Bytes of a module on one rank, nothing of it sharded. None exceeds kMost, so that they add up.
struct ModuleMemory {
  /// An exbibyte: what no machine has. Larger predictions end here.
  static constexpr std::int64_t kMost = std::int64_t{1} << 60;

  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;  ///< Of all microbatches in flight.
  /// Of these, one layer's (the output head counts as head_layers() of them); 0 where layers are
  /// not known.
  std::int64_t activations_per_layer = 0;

  std::int64_t total() const { return weights + gradients + optimizer + activations; }
};

/// Activations of a large microbatch over its units: measured where the profile has peaks, else by
/// the architecture; 0 where it has neither. The most expensive of the measured ones.
double activation_bytes_per_unit(const ModuleProfile& profile);

/// Whether the module was measured without a backward pass.
bool is_frozen(const ModuleProfile& profile);

/// Whether memory ran out, while the profile was measured, at a load that had no more to do: no
/// more units, and no more squares of them. False where it never ran out.
bool beyond_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                   std::int64_t in_flight = 1);

/// What a module needs while `in_flight` microbatches of this load wait for their backward passes.
/// Activations are interpolated from the peaks that the profile measured, or follow from its
/// architecture where none were; state follows from the architecture, and is 0 where there is none.
/// A frozen module has no gradients and no optimizer state, and keeps nothing for later:
/// activations are those of one microbatch, by the architecture of one layer. Left out:
/// fragmentation, and temporary buffers other than those of the measured peaks.
ModuleMemory predict_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                            std::int64_t in_flight = 1);

}  // namespace isocost
