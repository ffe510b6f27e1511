#include "balancer/layout/module_training.h"

#include <algorithm>
#include <array>
#include <utility>

namespace isocost {
namespace {

constexpr double kActivationBytes = 2;   // bf16
constexpr double kReductionsOfPass = 2;  // of a layer: after attention and after the MLP

constexpr std::array<std::pair<TrainedWeights, std::string_view>, 3> kWeights = {{
    {TrainedWeights::kAll, "all"},
    {TrainedWeights::kAdapters, "adapters"},
    {TrainedWeights::kNone, "none"},
}};
constexpr std::array<std::pair<Recompute, std::string_view>, 3> kRecompute = {{
    {Recompute::kNone, "none"},
    {Recompute::kSelective, "selective"},
    {Recompute::kFull, "full"},
}};

template <typename Value, std::size_t kSize>
std::string_view name_of(const std::array<std::pair<Value, std::string_view>, kSize>& names,
                         Value wanted) {
  for (const auto& [value, name] : names) {
    if (value == wanted) return name;
  }
  return "?";
}

template <typename Value, std::size_t kSize>
std::optional<Value> value_of(const std::array<std::pair<Value, std::string_view>, kSize>& names,
                              std::string_view wanted) {
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

double real(std::int64_t value) { return static_cast<double>(value); }

double mlp_matrices(const Architecture& shape) { return shape.gated ? 3 : 2; }

double mlp_share_of_layer(const Architecture& shape) {
  return mlp_matrices(shape) * real(shape.width * shape.mlp) / real(shape.layer_parameters());
}

// Bytes that a layer keeps per unit: in attention with its norm, at the input of the MLP, and
// within the MLP.
struct LayerBytes {
  double attention = 0;
  double mlp_input = 0;
  double mlp = 0;

  double all() const { return attention + mlp_input + mlp; }
};

// The inputs of both norms, query, key, value and what attention returns are always kept; the
// outputs of the norms and the MLP's product only for gradients of weights. Each adapter keeps its
// inner value.
LayerBytes layer_bytes(const Architecture& shape, const ModuleTraining& training) {
  const double width = real(shape.width);
  const bool frozen = training.weights == TrainedWeights::kNone;
  const double rank = real(training.adapter_rank);
  const double inner = mlp_matrices(shape) - (frozen ? 1 : 0);
  return {.attention = kActivationBytes *
                       ((frozen ? 3 : 4) * width + 2 * real(shape.key_value_width) + 4 * rank),
          .mlp_input = kActivationBytes * (frozen ? 1 : 2) * width,
          .mlp = kActivationBytes * (inner * real(shape.mlp) + mlp_matrices(shape) * rank)};
}

// The seconds of passes, in those of a module that is trained whole.
struct PassSeconds {
  double forward = 0;
  double inputs = 0;
  double weights = 0;

  double all() const { return forward + inputs + weights; }
};

PassSeconds pass_seconds(const TrainedModule& module, const ModuleTraining& training) {
  const double product = (1 - module.forward_share) / 2;
  if (training.weights == TrainedWeights::kAll) return {module.forward_share, product, product};
  const double adapters = adapter_parameters(module.shape, training) /
                          real(module.shape.layers * module.shape.layer_parameters());
  const bool backward = module.passes_gradients_on || training.weights == TrainedWeights::kAdapters;
  return {.forward = module.forward_share * (1 + adapters),
          .inputs = backward ? product * (1 + adapters) : 0,
          .weights = product * adapters};
}

double recomputed_share(const TrainedModule& module, Recompute recompute) {
  const double in_layers =
      real(module.shape.layers) / (real(module.shape.layers) + module.head_layers);
  switch (recompute) {
    case Recompute::kNone:
      return 0;
    case Recompute::kSelective:
      return in_layers * mlp_share_of_layer(module.shape);
    case Recompute::kFull:
      return in_layers;
  }
  return 0;
}

double recomputed_reductions(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return 0;
    case Recompute::kSelective:
      return kReductionsOfPass / 2;
    case Recompute::kFull:
      return kReductionsOfPass;
  }
  return 0;
}

// Bytes of a layer per unit: what its forward pass leaves, and what its backward pass holds beside
// that while it computes the layer again.
struct RecomputedBytes {
  double kept = 0;
  double working = 0;
};

// A recomputation keeps the input of what it computes again: of the layer, or of the MLP.
RecomputedBytes recomputed_bytes(const Architecture& shape, const LayerBytes& layer,
                                 Recompute recompute) {
  const double width = kActivationBytes * real(shape.width);
  switch (recompute) {
    case Recompute::kNone:
      return {.kept = layer.all()};
    case Recompute::kSelective:
      return {.kept = layer.attention + 2 * width, .working = layer.mlp};
    case Recompute::kFull:
      return {.kept = width, .working = layer.all() - width};
  }
  return {};
}

}  // namespace

std::string_view trained_weights_name(TrainedWeights weights) { return name_of(kWeights, weights); }

std::optional<TrainedWeights> trained_weights_from_name(std::string_view name) {
  return value_of(kWeights, name);
}

std::string_view recompute_name(Recompute recompute) { return name_of(kRecompute, recompute); }

std::optional<Recompute> recompute_from_name(std::string_view name) {
  return value_of(kRecompute, name);
}

double adapter_parameters(const Architecture& shape, const ModuleTraining& training) {
  if (training.weights != TrainedWeights::kAdapters) return 0;
  const double width = real(shape.width);
  const double attention = 4 * width + 2 * (width + real(shape.key_value_width));
  const double mlp = mlp_matrices(shape) * (width + real(shape.mlp));
  return real(shape.layers * training.adapter_rank) * (attention + mlp);
}

bool ModuleTraining::recomputes() const {
  return std::ranges::any_of(recompute, [](Recompute what) { return what != Recompute::kNone; });
}

TrainingWork training_work(const TrainedModule& module, const ModuleTraining& training,
                           std::size_t stage) {
  const Recompute recompute = training.recompute_of(stage);
  PassSeconds seconds = pass_seconds(module, training);
  const bool backward = seconds.inputs + seconds.weights > 0;
  if (backward) seconds.inputs += recomputed_share(module, recompute) * seconds.forward;
  TrainingWork work;
  work.seconds = seconds.all();
  work.passes = {.forward = seconds.forward / work.seconds,
                 .inputs = seconds.inputs / work.seconds,
                 .weights = seconds.weights / work.seconds};
  work.reductions = kReductionsOfPass;
  if (backward) work.reductions += kReductionsOfPass + recomputed_reductions(recompute);

  const double whole = real(module.shape.layer_activation_bytes_per_unit());
  const double units = real(module.shape.layers) + module.head_layers;
  const LayerBytes layer = layer_bytes(module.shape, training);
  const RecomputedBytes bytes = backward ? recomputed_bytes(module.shape, layer, recompute)
                                         : RecomputedBytes{.working = layer.all()};
  work.activations =
      (bytes.kept * real(module.shape.layers) + (backward ? whole * module.head_layers : 0)) /
      (whole * units);
  work.working = bytes.working / (whole * units);
  return work;
}

}  // namespace isocost
