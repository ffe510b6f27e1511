#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/place.h"
#include "examples/multimodal_trainer/model.h"

namespace isocost {

/// Layers `first` to `end` - 1 of the LLM.
struct LayerRange {
  std::size_t first = 0;
  std::size_t end = 0;
};
/// The layers of a stage: equally many for each, as far as they divide.
LayerRange layers_of_stage(std::size_t layers, std::size_t stages, std::size_t stage);

/// "encoder", "llm-0-of-2": what of the model the replicas of a stage hold.
std::string part_name(const Place& place, std::size_t llm_stages);

/// Whether the stage at `place` holds the parameter of this name: vision and audio stand on the
/// encoder; the embedding on the LLM's first stage, last norm and head on its last.
bool holds(const Place& place, std::size_t llm_layers, std::size_t llm_stages,
           const std::string& parameter);

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

/// The example model, of which this process holds some parameters and has let go of the others: to
/// compute with those throws. First weights follow from the seed, on all processes alike.
class StageModel {
 public:
  StageModel(const ModelOptions& options, std::uint64_t seed, torch::Dtype dtype,
             const std::function<bool(const std::string&)>& holds);

  MultimodalModel& model() { return model_; }
  /// Those it holds, in the model's order.
  const NamedParameters& parameters() const { return parameters_; }
  /// The same names with the gradients.
  NamedParameters gradients() const;
  /// One flat tensor of which every gradient is a part: reduced in one piece.
  torch::Tensor& flat_gradient() { return gradient_; }

  /// Plain SGD, so that the weights are all that a saved state needs; then gradients are zero.
  void update(double learning_rate);

 private:
  MultimodalModel model_;
  NamedParameters parameters_;
  torch::Tensor gradient_;
};

}  // namespace isocost
