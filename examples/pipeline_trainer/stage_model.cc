#include "examples/pipeline_trainer/stage_model.h"

#include <charconv>
#include <string_view>

namespace isocost {
namespace {

constexpr std::string_view kLayerPrefix = "llm.transformer.blocks.";

MultimodalModel seeded_model(const ModelOptions& options, std::uint64_t seed, torch::Dtype dtype) {
  torch::manual_seed(seed);
  MultimodalModel model(options);
  model->to(dtype);
  return model;
}

}  // namespace

LayerRange layers_of_stage(std::size_t layers, std::size_t stages, std::size_t stage) {
  return {layers * stage / stages, layers * (stage + 1) / stages};
}

std::string part_name(const Place& place, std::size_t llm_stages) {
  if (place.module == LayoutModule::kEncoder) return "encoder";
  return "llm-" + std::to_string(place.stage) + "-of-" + std::to_string(llm_stages);
}

bool holds(const Place& place, std::size_t llm_layers, std::size_t llm_stages,
           const std::string& parameter) {
  const bool in_llm = parameter.starts_with("llm.");
  if (place.module == LayoutModule::kEncoder) return !in_llm;
  if (!in_llm) return false;
  if (parameter.starts_with(kLayerPrefix)) {
    std::size_t layer = 0;
    const std::string_view number = std::string_view(parameter).substr(kLayerPrefix.size());
    std::from_chars(number.data(), number.data() + number.size(), layer);
    const LayerRange range = layers_of_stage(llm_layers, llm_stages, place.stage);
    return layer >= range.first && layer < range.end;
  }
  if (parameter.starts_with("llm.embedding.")) return place.stage == 0;
  return place.stage + 1 == llm_stages;
}

StageModel::StageModel(const ModelOptions& options, std::uint64_t seed, torch::Dtype dtype,
                       const std::function<bool(const std::string&)>& holds)
    : model_(seeded_model(options, seed, dtype)) {
  std::int64_t values = 0;
  for (const auto& named : model_->named_parameters()) {
    torch::Tensor parameter = named.value();
    if (!holds(named.key())) {
      parameter.set_requires_grad(false);
      parameter.set_data(torch::empty({0}, parameter.options()));
      continue;
    }
    parameters_.emplace_back(named.key(), parameter);
    values += parameter.numel();
  }
  gradient_ = torch::zeros({values}, torch::TensorOptions(dtype));
  std::int64_t first = 0;
  for (auto& [name, parameter] : parameters_) {
    parameter.mutable_grad() = gradient_.narrow(0, first, parameter.numel()).view_as(parameter);
    first += parameter.numel();
  }
}

NamedParameters StageModel::gradients() const {
  NamedParameters gradients;
  for (const auto& [name, parameter] : parameters_) gradients.emplace_back(name, parameter.grad());
  return gradients;
}

void StageModel::update(double learning_rate) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters_) parameter.sub_(parameter.grad() * learning_rate);
  gradient_.zero_();
}

}  // namespace isocost
