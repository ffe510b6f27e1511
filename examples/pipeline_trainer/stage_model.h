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
/// Returns the layers of a stage. Stages differ by at most one layer.
LayerRange layers_of_stage(std::size_t layers, std::size_t stages, std::size_t stage);

/// Returns the name of the part of the model that the replicas of a stage hold: "encoder",
/// "llm-0-of-2".
std::string part_name(const Place& place, std::size_t llm_stages);

/// Returns whether the stage at `place` holds the parameter of this name. The encoder stage holds
/// vision and audio, the LLM's first stage the embedding, and its last the last norm and the head.
bool holds(const Place& place, std::size_t llm_layers, std::size_t llm_stages,
           const std::string& parameter);

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

/// The part of the example model that this process holds. The other parameters are freed, and to
/// compute with them throws. The same seed gives the same first weights on all processes.
class StageModel {
 public:
  StageModel(const ModelOptions& options, std::uint64_t seed, torch::Dtype dtype,
             const std::function<bool(const std::string&)>& holds);

  MultimodalModel& model() { return model_; }
  /// The parameters that it holds, in the model's order.
  const NamedParameters& parameters() const { return parameters_; }
  /// Their gradients, by the same names.
  NamedParameters gradients() const;
  /// One flat tensor. Every gradient is a view of it, so that all are summed in one piece.
  torch::Tensor& flat_gradient() { return gradient_; }

  /// Takes a step of plain SGD, which has no state but the weights, and zeroes the gradients.
  void update(double learning_rate);

 private:
  MultimodalModel model_;
  NamedParameters parameters_;
  torch::Tensor gradient_;
};

}  // namespace isocost
