#pragma once

#include <array>

#include "base/load.h"
#include "examples/multimodal_trainer/model.h"
#include "trainer_adapter/torch/loader.h"

namespace isocost {

/// What a microbatch gave and took.
struct MicrobatchResult {
  double loss = 0;  ///< Its share of the global batch's mean loss.
  /// Forward and backward; negative where the microbatch has nothing for the module.
  std::array<double, kModules> seconds{-1, -1, -1};
};

/// Forward and backward of one microbatch, adding to the parameters' gradients. The graph is cut
/// between the modules, so that each one's backward runs, and is timed, on its own.
MicrobatchResult train_microbatch(MultimodalModel& model, const TorchMicrobatch& microbatch);

}  // namespace isocost
