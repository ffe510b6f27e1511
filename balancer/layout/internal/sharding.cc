#include "balancer/layout/internal/sharding.h"

#include <algorithm>
#include <cmath>

#include "costmodel/memory.h"

namespace isocost {

namespace {

// Bytes of a layer while it is whole, and of embeddings and output head.
struct WholeBytes {
  double weights = 0;     // of a layer
  double gradients = 0;   // of a layer: bf16, and the fp32 copy that is scattered
  double embeddings = 0;  // the fp32 copy of their gradients
};

// A pass holds its layer, and the one that is gathered meanwhile. The backward pass of a layer
// runs beside the scatter of the one after it.
double dropped_layers(const WholeBytes& bytes) {
  return 2 * bytes.weights + std::max(bytes.gradients, bytes.embeddings);
}

// All layers are whole already. The buffer into which the last one was gathered is free by the
// time when its gradients are whole, and so are its weights when they are scattered.
double kept_layers(const WholeBytes& bytes) {
  return std::max({bytes.weights, bytes.gradients - bytes.weights, bytes.embeddings});
}

}  // namespace

Sharding sharding_of(const Cluster& cluster, const ShardedModule& module,
                     const ModuleDegrees& degrees) {
  if (degrees.shard == 1) return {};
  const auto n = static_cast<double>(degrees.shard);
  const auto tensor = static_cast<double>(degrees.tensor);
  const double rate = cluster.ring_bytes_per_s(
      {.members = degrees.shard, .stride = degrees.tensor, .blocks = degrees.data / degrees.shard});
  const auto layers = static_cast<double>(module.shape.layers);
  const auto embeddings = static_cast<double>(module.shape.embedding_parameters);
  const double in_layers = (module.parameters - embeddings) / tensor;
  const double trained_share = module.trained / module.parameters;
  const double hops = layers * std::ceil(std::log2(n)) * cluster.latency_s;
  const double moved = in_layers * (n - 1) / n / rate;
  const double gather_s = StateBytes::kWeight * moved + hops;
  const double scatter_s =
      module.trained > 0 ? StateBytes::kGradient * trained_share * moved + hops : 0;
  const bool regathers = module.has_backward && module.reshard;
  constexpr double kWhole = StateBytes::kWeight;  // a gradient before it is scattered
  const double of_layer = in_layers / layers;
  const double whole = embeddings / tensor;
  const WholeBytes bytes{.weights = StateBytes::kWeight * of_layer,
                         .gradients = trained_share * (kWhole + StateBytes::kGradient) * of_layer,
                         .embeddings = trained_share * StateBytes::kGradient * whole};
  const double behind_passes = 1 - 1 / layers;
  return {.transfers = {.exposed_s = (gather_s + scatter_s) / layers,
                        .forward_s = behind_passes * gather_s,
                        .backward_s = (regathers ? gather_s : 0) + behind_passes * scatter_s},
          .layer_bytes = module.reshard ? dropped_layers(bytes) : kept_layers(bytes),
          .kept_bytes = module.reshard ? 0 : layers * bytes.weights,
          .whole_bytes = (StateBytes::kWeight + kWhole * trained_share) * whole};
}

}  // namespace isocost
