#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "balancer/layout/layout.h"

namespace isocost {

/// The seconds of the layers of both modules in the order of the model, for stages that recompute
/// different activations.
struct StageCutProblem {
  /// Layers of the encoder, then of the LLM; 0 for a module that is not in this pipeline.
  std::int64_t encoder_layers = 0;
  std::int64_t llm_layers = 0;
  /// [stages]: the seconds of a layer on each stage.
  std::vector<double> encoder_layer_s = {};
  std::vector<double> llm_layer_s = {};
  /// Work after the last layer, as a number of LLM layers.
  double head_layers = 0;
};

/// Divides consecutive layers over the stages so that the longest stage is as short as possible.
/// A stage may have no layer.
LayerCut stage_cut(const StageCutProblem& problem);

}  // namespace isocost
