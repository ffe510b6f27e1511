#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "balancer/pipeline/pipeline_model.h"
#include "costmodel/architecture.h"

namespace isocost {

/// The weights of a module that are trained.
enum class TrainedWeights : std::uint8_t {
  kAll,
  kAdapters,  ///< Low-rank adapters beside every linear layer; the module's own weights are frozen.
  kNone,      ///< The module is frozen.
};

/// The activations that a backward pass computes again from what was kept.
enum class Recompute : std::uint8_t {
  kNone,
  kSelective,  ///< The inner values of every layer's MLP.
  kFull,       ///< Every layer, from its input.
};

/// Return "all", "adapters" or "none", and "none", "selective" or "full".
std::string_view trained_weights_name(TrainedWeights weights);
std::optional<TrainedWeights> trained_weights_from_name(std::string_view name);
std::string_view recompute_name(Recompute recompute);
std::optional<Recompute> recompute_from_name(std::string_view name);

/// How a module of a layout is trained.
struct ModuleTraining {
  static constexpr std::int64_t kMostRank = 65'536;

  TrainedWeights weights = TrainedWeights::kAll;
  std::int64_t adapter_rank = 0;  ///< 1 to kMostRank with kAdapters; else 0.
  /// The activations that each stage computes again [stages], or one entry for all. Never empty.
  std::vector<Recompute> recompute = {Recompute::kNone};
  /// Whether sharded weights are dropped after a layer's forward pass, and gathered again for its
  /// backward pass (reshard_after_forward of PyTorch's fully_shard). Else they stay whole between
  /// both. False only for a module with sharded weights and a backward pass.
  bool reshard = true;

  bool recomputes() const;
  /// Returns whether stages compute different activations again.
  bool by_stage() const { return recompute.size() > 1; }
  Recompute recompute_of(std::size_t stage) const {
    return by_stage() ? recompute.at(stage) : recompute.front();
  }
  bool operator==(const ModuleTraining&) const = default;
};

/// A transformer, and what its measured seconds hold.
struct TrainedModule {
  Architecture shape;
  double head_layers = 0;            ///< The work outside its layers, as a number of layers.
  double forward_share = 1.0 / 3;    ///< The forward pass's part of its seconds.
  bool passes_gradients_on = false;  ///< Whether what feeds it needs the gradients of its inputs.
};

/// The passes of a module as it is trained, beside those of one that is trained whole and keeps all
/// its activations.
struct TrainingWork {
  double seconds = 1;      ///< Factor on the seconds of forward and backward.
  PassShares passes;       ///< Shares of these seconds.
  double reductions = 4;   ///< All-reduces of a layer between its tensor ranks.
  double activations = 1;  ///< Factor on the bytes that are kept for the backward pass.
  /// Factor on these bytes: what one layer holds while a pass computes it, and does not keep.
  double working = 0;
};

/// Returns the work of a module that is trained this way, where every stage computes again what
/// `stage` does. A forward pass takes `forward_share` of
/// the seconds; the rest is divided equally between the gradients of inputs and of weights.
///
/// - A frozen module computes no gradients of weights, and none of inputs either if nothing before
///   it is trained. Then it keeps nothing.
/// - Adapters of rank r (Hu et al. 2022, LoRA, section 4) add r·(inputs + outputs) weights to each
///   linear layer, and take as much longer as these are more. Only they have gradients of weights.
/// - A full recomputation keeps the input of each layer, and runs the forward pass of all layers
///   again (Korthikanti et al. 2023, Reducing Activation Recomputation in Large Transformer Models,
///   section 5). A selective one does so for the MLPs: their inner values are the largest
///   activations where attention keeps no scores.
///
/// Not modelled: dropout's masks, and what optimizers and gradients of adapters share.
TrainingWork training_work(const TrainedModule& module, const ModuleTraining& training,
                           std::size_t stage = 0);

/// Returns the parameters of a module's adapters; 0 if it has none.
double adapter_parameters(const Architecture& shape, const ModuleTraining& training);

}  // namespace isocost
