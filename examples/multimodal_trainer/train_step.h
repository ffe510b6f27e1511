#pragma once

#include <array>

#include "base/load.h"
#include "examples/multimodal_trainer/model.h"
#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {

/// Loss and seconds of a microbatch.
struct MicrobatchResult {
  double loss = 0;  ///< This rank's part of the global batch's mean loss.
  /// Forward and backward, by module; negative if the microbatch has no work for the module.
  std::array<double, kModules> seconds{-1, -1, -1};
};

/// Runs forward and backward of one microbatch, and adds to the parameters' gradients. The graph is
/// cut between the modules, so that each module's backward runs and is timed on its own.
MicrobatchResult train_microbatch(MultimodalModel& model, const TorchMicrobatch& microbatch);

}  // namespace isocost
