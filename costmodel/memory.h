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

/// Bytes of a module that trains on one rank, nothing of it sharded.
struct ModuleMemory {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;  ///< Of all microbatches in flight.
  std::int64_t activations_per_layer =
      0;  ///< Of these, one layer's (the output head counts as
          ///< head_layers() of them); 0 where layers are not known.

  std::int64_t total() const { return weights + gradients + optimizer + activations; }
};

/// Activations of a large microbatch over its units: measured where the profile has peaks, else by
/// the architecture; 0 where it has neither. The dearest of the measured ones.
double activation_bytes_per_unit(const ModuleProfile& profile);

/// What a module needs while `in_flight` microbatches of this load wait for their backward passes.
/// Activations are interpolated from the peaks that the profile measured, or follow from its
/// architecture where none were; state follows from the architecture, and is 0 where there is none.
/// Left out: fragmentation, and temporary buffers other than those of the measured peaks.
ModuleMemory predict_memory(const ModuleProfile& profile, const ModuleLoad& microbatch,
                            std::int64_t in_flight = 1);

}  // namespace isocost
